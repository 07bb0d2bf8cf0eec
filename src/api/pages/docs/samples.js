// The code samples of the document, below each operation.

import { copy } from "../assets/copy.js";

// The language that was chosen last, for operations that are opened later.
let language = null;

/** A plugin of Swagger UI. */
export const codeSamples = ({ React }) => {
  const h = React.createElement;

  function Samples({ path, samples, base }) {
    const [chosen, choose] = React.useState(language);
    const [label, setLabel] = React.useState("Copy");
    const code = React.useRef(null);
    const shown = samples.find((sample) => sample.get("lang") === chosen) ?? samples.first();
    const option = (sample) => h("label", { key: sample.get("lang") },
      h("input", {
        type: "radio",
        name: `language of ${path}`,
        checked: sample === shown,
        onChange: () => choose((language = sample.get("lang"))),
      }),
      sample.get("label"));
    const copied = async () => {
      setLabel((await copy(code.current)) ? "Copied" : "Press Ctrl-C");
      setTimeout(() => setLabel("Copy"), 2500);
    };
    return h("section", { className: "samples", "aria-label": "Code" },
      h("fieldset", null,
        h("legend", null, "Code"),
        samples.map(option).toArray(),
        h("button", { type: "button", className: "button quiet slim", onClick: copied }, label)),
      h("pre", { tabIndex: 0 }, h("code", { ref: code }, shown.get("source"))),
      h("p", null, "Set ", h("code", null, `BASE_URL=${base}`), " and ", h("code", null, "API_KEY"), " in the environment."));
  }

  const withSamples = (Responses, { specSelectors }) => (props) => {
    const { path, method } = props;
    const spec = specSelectors.specJson();
    const [samples, base] = [["paths", path, method, "x-codeSamples"], ["servers", 0, "url"]].map((at) => spec.getIn(at));
    return h(React.Fragment, null, h(Samples, { path, samples, base }), h(Responses, props));
  };
  // The command that Swagger UI shows has the key in it.
  return { wrapComponents: { responses: withSamples, curl: () => () => null } };
};
