//! Text tables whose columns are as wide as their contents on a terminal.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The widest cell, in terminal columns. Longer text is truncated.
const MAX_CELL_WIDTH: usize = 60;

/// One field of a table.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(in crate::cli) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: truncate(text.into()), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(in crate::cli) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(in crate::cli) fn new(header: &[&str]) -> Self {
        let bold = Style::new().bold();
        Self { rows: vec![header.iter().map(|name| Cell::styled(*name, bold)).collect()] }
    }

    pub(in crate::cli) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// One line per row, without trailing spaces.
    pub(in crate::cli) fn to_text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            for (column, Cell { text: shown, style }) in row.iter().enumerate() {
                text.push_str(&format!("{style}{shown}{style:#}"));
                if column + 1 < row.len() {
                    let gap = widths[column] - shown.width() + 2;
                    text.extend(std::iter::repeat_n(' ', gap));
                }
            }
            text.push('\n');
        }
        text
    }
}

fn truncate(text: String) -> String {
    if text.width() <= MAX_CELL_WIDTH {
        return text;
    }
    let mut remaining = MAX_CELL_WIDTH - 1;
    let fits = |character: &char| {
        let width = character.width().unwrap_or(0);
        let fits = width <= remaining;
        remaining = remaining.saturating_sub(width);
        fits
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_in_every_script() {
        let mut table = Table::new(&["NAME", "STATUS"]);
        for name in ["ci", "日本語", "naïve", "👩‍🔬", ""] {
            table.push(vec![name.into(), "active".into()]);
        }
        let text = anstream::adapter::strip_str(&table.to_text()).to_string();
        for line in text.lines() {
            let column = line.find("STATUS").or_else(|| line.find("active")).expect("the column");
            assert_eq!(line[..column].width(), 8, "{text}");
        }
    }

    #[test]
    fn text_that_is_too_wide_is_truncated() {
        for name in ["x".repeat(200), "語".repeat(200)] {
            let Cell { text, .. } = Cell::from(name);
            assert!(text.width() <= MAX_CELL_WIDTH && text.width() >= MAX_CELL_WIDTH - 1, "{text}");
            assert!(text.ends_with('…'));
        }
    }
}
