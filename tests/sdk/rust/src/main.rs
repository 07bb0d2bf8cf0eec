progenitor::generate_api!(spec = "../../../target/sdk/openapi.json");
fn main() {}
