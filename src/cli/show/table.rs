//! Tables: columns as wide as what a terminal shows in them.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is wider than this, in columns of the terminal, is cut.
const WIDEST: usize = 60;

/// One field of a table.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(in crate::cli) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: cut(text.into()), style }
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

    /// One line a row, nothing behind the last field.
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

fn cut(text: String) -> String {
    if text.width() <= WIDEST {
        return text;
    }
    let mut left = WIDEST - 1;
    let fits = |character: &char| {
        let width = character.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
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
    fn columns_line_up_whatever_the_script() {
        let mut table = Table::new(&["NAME", "STATUS"]);
        for name in ["ci", "日本語", "naïve", "👩‍🔬", ""] {
            table.push(vec![name.into(), "active".into()]);
        }
        let text = anstream::adapter::strip_str(&table.to_text()).to_string();
        for line in text.lines() {
            let at = line.find("STATUS").or_else(|| line.find("active")).expect("the column");
            assert_eq!(line[..at].width(), 8, "{text}");
        }
    }

    #[test]
    fn what_is_too_wide_is_cut() {
        for name in ["x".repeat(200), "語".repeat(200)] {
            let Cell { text, .. } = Cell::from(name);
            assert!(text.width() <= WIDEST && text.width() >= WIDEST - 1, "{text}");
            assert!(text.ends_with('…'));
        }
    }
}
