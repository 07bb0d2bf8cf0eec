//! Install commands, on every upstream.

use super::*;

#[tokio::test]
async fn an_install_command_is_shown_only_if_all_of_it_is_visible_on_one_line() {
    let shown = ["get it", " pip install 'x' ", "naïve 日本 \u{5d0}\u{627}", "a\u{a0}b"];
    let hidden = [
        "two\nlines",
        "tab\tbed",
        "cr\r",
        "nel\u{85}",
        "ls\u{2028}",
        "ps\u{2029}",
        "esc\u{1b}[2J",
        "c1\u{9b}",
        "rlo\u{202e}x",
        "lre\u{202a}",
        "lri\u{2066}",
        "pdi\u{2069}",
        "lrm\u{200e}",
        "alm\u{61c}",
        "zwsp\u{200b}",
        "zwnj\u{200c}",
        "zwj\u{200d}",
        "wj\u{2060}",
        "bom\u{feff}",
        "shy\u{ad}",
        "cgj\u{34f}",
        "filler\u{3164}",
        "halfwidth\u{ffa0}",
        "jamo\u{115f}",
        "mvs\u{180e}",
        "vs\u{fe0f}",
        "tag\u{e0041}",
        "vs17\u{e0100}",
        "khmer\u{17b4}",
        "annotation\u{fff9}",
        "music\u{1d173}",
        "shorthand\u{1bca0}",
        " ",
        "\u{3000}",
    ];
    let stored: Vec<_> = shown.iter().chain(&hidden).copied().collect();
    let genes = stored.iter().zip(1..).map(|(command, number)| {
        let install_command = Some((*command).to_owned());
        CatalogueGene { install_command, ..gene(number, "d", &[]) }
    });
    let both = BothUpstreams::of(genes.collect()).await;
    for upstream in both.each() {
        for (command, number) in stored.iter().zip(1..) {
            let id = Uuid::from_u128(number);
            let found = upstream.phenotype(id.into()).await.expect("a read").value;
            let expected = if shown.contains(command) {
                (*command).to_owned()
            } else {
                format!("install {id}")
            };
            assert_eq!(found.expect("a gene").install_command, expected, "{command:?}");
        }
    }
}
