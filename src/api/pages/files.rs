//! The files of the pages, except the front page, which is rendered for each request.

use crate::http::static_file::{HTML, PageFile, SCRIPT, STYLE};
use crate::http::swagger_ui;

const OWN_FILES: [PageFile; 21] = [
    ("/assets/front.css", STYLE, include_str!("front/front.css")),
    ("/assets/front.js", SCRIPT, include_str!("front/front.js")),
    ("/assets/key.js", SCRIPT, include_str!("assets/key.js")),
    ("/docs", HTML, include_str!("docs/index.html")),
    ("/docs/init.js", SCRIPT, include_str!("docs/init.js")),
    ("/docs/samples.js", SCRIPT, include_str!("docs/samples.js")),
    ("/arena", HTML, include_str!("arena/index.html")),
    ("/arena/arena.css", STYLE, include_str!("arena/arena.css")),
    ("/arena/main.js", SCRIPT, include_str!("arena/main.js")),
    ("/arena/api.js", SCRIPT, include_str!("arena/api.js")),
    ("/arena/view.js", SCRIPT, include_str!("arena/view.js")),
    ("/arena/seen.js", SCRIPT, include_str!("arena/seen.js")),
    ("/arena/key_form.js", SCRIPT, include_str!("arena/key_form.js")),
    ("/arena/domains.js", SCRIPT, include_str!("arena/domains.js")),
    ("/arena/errors.js", SCRIPT, include_str!("arena/errors.js")),
    ("/arena/overview.js", SCRIPT, include_str!("arena/overview.js")),
    ("/arena/plots.js", SCRIPT, include_str!("arena/plots.js")),
    ("/arena/table.js", SCRIPT, include_str!("arena/table.js")),
    ("/genes/:id", HTML, include_str!("gene/index.html")),
    ("/arena/gene.js", SCRIPT, include_str!("gene/gene.js")),
    ("/arena/schema.js", SCRIPT, include_str!("gene/schema.js")),
];

/// All files, with those of Swagger UI.
pub(super) fn files() -> impl Iterator<Item = PageFile> {
    OWN_FILES.into_iter().chain(swagger_ui::FILES)
}
