//! Code samples of each operation: curl, Python and TypeScript with their standard libraries only, and
//! Rust. The tests run them.

use serde_json::{Value, json};

use super::examples::{DOMAIN, GENE};

/// Adds the samples to each operation.
pub(super) fn add_to(document: &mut Value) {
    for (path, request, use_ts, use_py, use_rs) in [
        (
            "/genes",
            format!("/genes?domain={DOMAIN}&fidelity=Native&sort=fitness&limit=2"),
            "for (const gene of body.data) console.log(gene.name, gene.fitness_score);",
            "for gene in body[\"data\"]:\n    print(gene[\"name\"], gene[\"fitness_score\"])",
            "for gene in body[\"data\"].as_array().into_iter().flatten() {\n        \
                 println!(\"{} {}\", gene[\"name\"], gene[\"fitness_score\"]);\n    \
             }",
        ),
        (
            "/genes/{id}/phenotype",
            format!("/genes/{GENE}/phenotype"),
            "console.log(body.install_command, body.phenotype.input);",
            "print(body[\"install_command\"], body[\"phenotype\"][\"input\"])",
            "println!(\"{} {}\", body[\"install_command\"], body[\"phenotype\"][\"input\"]);",
        ),
        (
            "/arena/insights",
            format!("/arena/insights?domain={DOMAIN}"),
            "console.log(body.shannon_diversity, body.top_genes);",
            "print(body[\"shannon_diversity\"], body[\"top_genes\"])",
            "println!(\"{} {}\", body[\"shannon_diversity\"], body[\"top_genes\"]);",
        ),
    ] {
        document["paths"][path]["get"]["x-codeSamples"] = json!([
            { "lang": "Shell", "label": "curl", "source": curl(&request) },
            { "lang": "Python", "label": "Python", "source": python(&request, use_py) },
            { "lang": "TypeScript", "label": "TypeScript", "source": typescript(&request, use_ts) },
            { "lang": "Rust", "label": "Rust", "source": rust(&request, use_rs) },
        ]);
    }
}

fn curl(request: &str) -> String {
    format!("curl --fail-with-body -H \"X-API-Key: $API_KEY\" \"$BASE_URL{request}\"\n")
}

fn typescript(request: &str, then: &str) -> String {
    format!(
        "const {{ BASE_URL, API_KEY = \"\" }} = process.env;\n\
         const response = await fetch(`${{BASE_URL}}{request}`, {{\n  \
           headers: {{ \"X-API-Key\": API_KEY }},\n\
         }});\n\
         const body = await response.json();\n\
         if (!response.ok) throw new Error(`${{body.code}}: ${{body.error}}`);\n\
         {then}\n"
    )
}

fn python(request: &str, then: &str) -> String {
    format!(
        "import json\nimport os\nimport urllib.request\n\n\
         request = urllib.request.Request(\n    \
             os.environ[\"BASE_URL\"] + \"{request}\",\n    \
             headers={{\"X-API-Key\": os.environ[\"API_KEY\"]}},\n\
         )\n\
         with urllib.request.urlopen(request) as response:\n    \
             body = json.load(response)\n\
         {then}\n"
    )
}

fn rust(request: &str, then: &str) -> String {
    format!(
        "// Crates: reqwest with the feature json, serde_json, tokio with the features macros and rt.\n\
         #[tokio::main(flavor = \"current_thread\")]\n\
         async fn main() -> Result<(), Box<dyn std::error::Error>> {{\n    \
             let url = std::env::var(\"BASE_URL\")? + \"{request}\";\n    \
             let request = reqwest::Client::new().get(url);\n    \
             let response = request.header(\"X-API-Key\", std::env::var(\"API_KEY\")?).send().await?;\n    \
             let body: serde_json::Value = response.error_for_status()?.json().await?;\n    \
             {then}\n    \
             Ok(())\n\
         }}\n"
    )
}
