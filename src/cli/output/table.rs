//! Text tables: as wide as their contents, or as wide as a terminal.

use anstyle::Style;
use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// The widest cell without a terminal, in columns of text. Longer text is truncated.
const MAX_CELL_WIDTH: usize = 60;

/// The spaces between two columns, and those on a terminal that is too narrow.
const GAP: usize = 2;
const NARROW_GAP: usize = 1;

/// A flexible column is not truncated to less before the table is made narrower in other ways.
const READABLE_WIDTH: usize = 12;
const MIN_WIDTH: usize = 3;

/// Text with a style, for terminals.
pub(in crate::cli) fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// A header and rows. The cells may be styled.
pub(in crate::cli) struct Table {
    rows: Vec<Vec<String>>,
    /// For each column, whether its cells may be truncated to make the table narrower.
    is_flexible: Vec<bool>,
    /// The width of each column without truncation.
    widths: Vec<usize>,
}

impl Table {
    /// A table whose columns in `flexible` may be truncated.
    pub(in crate::cli) fn new(
        header: &[&str],
        flexible: &[&str],
        mut rows: Vec<Vec<String>>,
    ) -> Self {
        let bold = Style::new().bold();
        rows.insert(0, header.iter().map(|name| styled(name, bold)).collect());
        let width = |column: usize| {
            let widths = rows.iter().filter_map(|row| row.get(column));
            widths.map(|cell| measure_text_width(cell)).max().unwrap_or_default()
        };
        let widths = (0..header.len()).map(width).collect();
        let is_flexible = header.iter().map(|name| flexible.contains(name)).collect();
        Self { rows, is_flexible, widths }
    }

    /// Whether it fits a terminal of this width with all flexible columns readable.
    pub(in crate::cli) fn fits(&self, width: usize) -> bool {
        let columns = self.widths.iter().zip(&self.is_flexible);
        let least = columns.map(|(width, is_flexible)| match is_flexible {
            true => READABLE_WIDTH.min(*width),
            false => *width,
        });
        least.sum::<usize>() + GAP * (self.widths.len() - 1) <= width
    }

    /// One line for the header and for each row, without trailing spaces. For a terminal of the
    /// given width, flexible columns are truncated as far as necessary, the widest first.
    pub(in crate::cli) fn text(&self, width: Option<usize>) -> String {
        let Some(width) = width else {
            let widths = self.widths.iter().map(|width| MAX_CELL_WIDTH.min(*width));
            return self.lines(&widths.collect::<Vec<_>>(), GAP);
        };
        let gap = if self.fits(width) { GAP } else { NARROW_GAP };
        let mut widths = self.widths.clone();
        let gaps = gap * (widths.len() - 1);
        while widths.iter().sum::<usize>() + gaps > width {
            let flexible = widths.iter_mut().zip(&self.is_flexible);
            let flexible =
                flexible.filter(|(width, is_flexible)| **is_flexible && **width > MIN_WIDTH);
            let Some((widest, _)) = flexible.max_by_key(|(width, _)| **width) else { break };
            *widest -= 1;
        }
        self.lines(&widths, gap)
    }

    fn lines(&self, widths: &[usize], gap: usize) -> String {
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(widths).map(|(cell, width)| {
                let cell = truncate_str(cell, *width, "…");
                pad_str(&cell, width + gap, Alignment::Left, None).into_owned()
            });
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_in_every_script() {
        let names = ["ci", "日本語", "naïve", "👩‍🔬", ""];
        let rows = names.map(|name| vec![name.to_owned(), "active".to_owned()]);
        let text = Table::new(&["NAME", "STATUS"], &[], rows.to_vec()).text(None);
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in text.lines() {
            let column = line.find("STATUS").or_else(|| line.find("active")).expect("the column");
            assert_eq!(measure_text_width(&line[..column]), 8, "{text}");
        }
    }

    #[test]
    fn text_that_is_too_wide_is_truncated() {
        for name in ["x".repeat(200), "語".repeat(200)] {
            let text = Table::new(&["NAME"], &[], vec![vec![name]]).text(None);
            let cell = text.lines().last().expect("a row");
            let width = measure_text_width(cell);
            assert!((MAX_CELL_WIDTH - 1..=MAX_CELL_WIDTH).contains(&width), "{cell}");
            assert!(cell.ends_with('…'));
        }
    }

    #[test]
    fn on_a_terminal_flexible_columns_take_the_width_that_is_left() {
        let row = ["gr_aB3dEf7h".to_owned(), "語".repeat(50), "read".to_owned()];
        let table =
            Table::new(&["PREFIX", "NAME", "SCOPES"], &["NAME", "SCOPES"], vec![row.into()]);
        for (width, is_readable) in [(200, true), (80, true), (33, true), (30, false), (21, false)]
        {
            assert_eq!(table.fits(width), is_readable, "{width}");
            let text = anstream::adapter::strip_str(&table.text(Some(width))).to_string();
            let widest = text.lines().map(measure_text_width).max();
            // Wide characters may leave one column empty.
            assert!(widest.is_some_and(|widest| widest <= width), "{width}: {text}");
            assert!(text.contains("gr_aB3dEf7h "), "{text}");
            assert_eq!(text.contains('…'), width < 119, "{width}: {text}");
        }
    }
}
