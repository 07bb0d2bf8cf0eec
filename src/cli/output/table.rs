//! Text tables whose columns are as wide as their contents on a terminal.

use anstyle::Style;
use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// The widest cell, in terminal columns. Longer text is truncated.
const MAX_CELL_WIDTH: usize = 60;

/// Text with a style, for terminals.
pub(in crate::cli) fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// One line for the header and for each row, without trailing spaces. The cells may be styled.
pub(in crate::cli) fn table(header: &[&str], mut rows: Vec<Vec<String>>) -> String {
    let bold = Style::new().bold();
    rows.insert(0, header.iter().map(|name| styled(name, bold)).collect());
    let mut widths = vec![0; header.len()];
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&mut widths) {
            *cell = truncate_str(cell, MAX_CELL_WIDTH, "…").into_owned();
            *width = measure_text_width(cell).max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| pad_str(cell, width + 2, Alignment::Left, None));
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_in_every_script() {
        let names = ["ci", "日本語", "naïve", "👩‍🔬", ""];
        let rows = names.map(|name| vec![name.to_owned(), "active".to_owned()]);
        let text = table(&["NAME", "STATUS"], rows.to_vec());
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in text.lines() {
            let column = line.find("STATUS").or_else(|| line.find("active")).expect("the column");
            assert_eq!(measure_text_width(&line[..column]), 8, "{text}");
        }
    }

    #[test]
    fn text_that_is_too_wide_is_truncated() {
        for name in ["x".repeat(200), "語".repeat(200)] {
            let text = table(&["NAME"], vec![vec![name]]);
            let cell = text.lines().last().expect("a row");
            let width = measure_text_width(cell);
            assert!((MAX_CELL_WIDTH - 1..=MAX_CELL_WIDTH).contains(&width), "{cell}");
            assert!(cell.ends_with('…'));
        }
    }
}
