//! A real Prometheus that scrapes the tests' replicas and evaluates the shipped alerts.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::process::{Launch, Process, find_program};
use super::wait::eventually;
use super::{free_port, replace_file, scratch_folder};

const RULES: &str = "config/prometheus/alerts.yml";

/// The durations of the rules are divided by this, so that a minute takes a second.
const DIVISOR: u64 = 60;

/// The longest `for` of the divided rules, in milliseconds, without [`FULL`].
const MAX_FOR_MS: u64 = 15_000;

/// If this variable is set, each `for` is exactly divided.
const FULL: &str = "GENE_REGISTRY_ALERTS_FULL";

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The alerts in the order of the file.
pub(crate) fn rules() -> Vec<Value> {
    rules_in(RULES)
}

/// The alerts in the order of a file of this repository.
pub(crate) fn rules_in(file: &str) -> Vec<Value> {
    let groups = groups(file);
    let groups = groups["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn groups(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A running Prometheus. Dropping it ends it.
pub(crate) struct Prometheus {
    process: Process,
    client: reqwest::Client,
    url: String,
    targets: Mutex<Vec<String>>,
    targets_file: PathBuf,
}

impl Prometheus {
    /// Starts one that scrapes nothing yet.
    pub(crate) async fn start() -> Self {
        let (folder, port) = (scratch_folder("prometheus"), free_port());
        let (rules, config) = (folder.join("alerts.yml"), folder.join("prometheus.yml"));
        let targets_file = folder.join("targets.json");
        // JSON is YAML too.
        write(&rules, &divided_rules());
        write(&targets_file, &json!([]));
        let discovery = json!({ "files": [&targets_file], "refresh_interval": "1s" });
        let job = json!({ "job_name": "gene-registry", "file_sd_configs": [discovery] });
        let global = json!({
            "scrape_interval": "1s",
            "evaluation_interval": "1s",
            "external_labels": { "runbook_base_url": "https://runbook.example" },
        });
        write(
            &config,
            &json!({ "global": global, "rule_files": [&rules], "scrape_configs": [job] }),
        );
        let process = Launch::new("prometheus", find_program("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=warn")
            .start();
        let (client, url) = (reqwest::Client::new(), format!("http://127.0.0.1:{port}"));
        let prometheus = Self { process, client, url, targets: Mutex::default(), targets_file };
        eventually(START_TIMEOUT, "Prometheus is ready", || async {
            let process = &prometheus.process;
            assert!(process.is_running(), "Prometheus did not start: {}", process.report());
            let ready = prometheus.client.get(format!("{}/-/ready", prometheus.url)).send().await;
            ready.is_ok_and(|response| response.status().is_success())
        })
        .await;
        prometheus
    }

    /// Scrapes this `host:port` too, and waits until it has.
    pub(crate) async fn scrape(&self, target: &str) {
        let targets = {
            let mut targets = self.targets.lock().unwrap();
            targets.push(target.to_owned());
            json!([{ "targets": *targets }])
        };
        replace_file(&self.targets_file, targets.to_string().as_bytes());
        let up = format!("up{{instance=\"{target}\"}}");
        eventually(START_TIMEOUT, &up, || async { self.value(&up).await == Some(1.0) }).await;
    }

    /// The first value of a query, if it has any.
    pub(crate) async fn value(&self, query: &str) -> Option<f64> {
        self.query(query)
            .await
            .first()
            .map(|one| one["value"][1].as_str().unwrap().parse().unwrap())
    }

    /// The series that a query finds, with their values.
    pub(crate) async fn query(&self, query: &str) -> Vec<Value> {
        let url = format!("{}/api/v1/query", self.url);
        let url = reqwest::Url::parse_with_params(&url, [("query", query)]).unwrap();
        let found: Value = self.client.get(url).send().await.unwrap().json().await.unwrap();
        found["data"]["result"].as_array().unwrap_or_else(|| panic!("{query}: {found}")).clone()
    }

    /// The alerts that are pending or firing, as `/api/v1/alerts` lists them.
    pub(crate) async fn alerts(&self) -> Vec<Value> {
        let response = self.client.get(format!("{}/api/v1/alerts", self.url)).send().await;
        let found: Value = response.unwrap().json().await.unwrap();
        found["data"]["alerts"].as_array().unwrap_or_else(|| panic!("{found}")).clone()
    }
}

fn write(path: &Path, value: &Value) {
    std::fs::write(path, value.to_string()).unwrap();
}

/// The shipped rules with their durations divided.
fn divided_rules() -> Value {
    let mut rules = groups(RULES);
    for group in rules["groups"].as_array_mut().unwrap() {
        for rule in group["rules"].as_array_mut().unwrap() {
            rule["expr"] = divide_ranges(rule["expr"].as_str().unwrap()).into();
            if let Some(time) = rule.get("for") {
                let divided = divided_ms(time.as_str().unwrap());
                let is_full = std::env::var_os(FULL).is_some();
                let divided = if is_full { divided } else { divided.min(MAX_FOR_MS) };
                rule["for"] = format!("{divided}ms").into();
            }
        }
    }
    rules
}

/// The expression with the range of each `[5m]` divided.
fn divide_ranges(expression: &str) -> String {
    let mut parts = expression.split('[');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        let (range, rest) = part.split_once(']').unwrap();
        format!("{text}[{}ms]{rest}", divided_ms(range))
    })
}

/// A sixtieth of a duration such as `90s`, `5m` or `1h`, in milliseconds.
fn divided_ms(duration: &str) -> u64 {
    let (number, unit) = duration.split_at(duration.len() - 1);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => panic!("an unknown unit: {duration}"),
    };
    number.parse::<u64>().unwrap() * seconds * 1_000 / DIVISOR
}
