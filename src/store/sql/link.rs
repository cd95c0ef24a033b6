//! A connection to a server as the rest sees it: a statement goes in, rows of texts come out.

use async_trait::async_trait;
use std::fmt::Write;

/// A value that a statement is given. Nothing of it can be taken for SQL: see [`Marks`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text; `None` is NULL.
    Text(Option<String>),
    /// A number; `None` is NULL.
    Number(Option<i64>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

/// One row: its values as texts, NULL as `None`.
pub type Row = Vec<Option<String>>;

/// What a row has at a place; empty for NULL, as in [`crate::job::Fields`].
pub fn text(row: &Row, at: usize) -> &str {
    row.get(at).and_then(|value| value.as_deref()).unwrap_or_default()
}

/// The number that a row has at a place; 0 for NULL.
pub fn number(row: &Row, at: usize) -> i64 {
    text(row, at).parse().unwrap_or(0)
}

/// How a dialect marks the places of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// `$1`, `$2` …: the values go beside the text.
    Numbered,
    /// The value itself, a text as the hexadecimal digits of its bytes: no character of it has a meaning, and there is
    /// nothing to escape. For a protocol where values beside the text cost another round trip, and more.
    Hexadecimal,
}

/// A statement that grows: text, and places for values.
#[derive(Debug)]
pub struct Statement {
    marks: Marks,
    sql: String,
    values: Vec<Value>,
}

impl Statement {
    /// One that begins with a text.
    pub fn new(marks: Marks, sql: impl Into<String>) -> Self {
        Self { marks, sql: sql.into(), values: Vec::new() }
    }

    /// Adds text.
    pub fn text(mut self, sql: &str) -> Self {
        self.sql.push_str(sql);
        self
    }

    /// Adds a place and its value.
    pub fn value(mut self, value: impl Into<Value>) -> Self {
        // Writing to a text does not fail.
        let _ = match (self.marks, value.into()) {
            (Marks::Numbered, value) => {
                self.values.push(value);
                write!(self.sql, "${}", self.values.len())
            }
            (Marks::Hexadecimal, Value::Number(Some(number))) => write!(self.sql, "{number}"),
            (Marks::Hexadecimal, Value::Text(Some(text))) => {
                self.sql.push_str("_utf8mb4 X'");
                text.bytes().try_for_each(|byte| write!(self.sql, "{byte:02x}")).and_then(|()| write!(self.sql, "'"))
            }
            (Marks::Hexadecimal, Value::Number(None) | Value::Text(None)) => write!(self.sql, "NULL"),
        };
        self
    }

    /// Adds what each item adds, with a text in between.
    pub fn each<T>(self, items: impl IntoIterator<Item = T>, between: &str, add: impl Fn(Self, T) -> Self) -> Self {
        items.into_iter().enumerate().fold(self, |statement, (at, item)| {
            let statement = if at == 0 { statement } else { statement.text(between) };
            add(statement, item)
        })
    }

    /// Adds a list of values in parentheses.
    pub fn list<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Self {
        self.text("(").each(values, ", ", Self::value).text(")")
    }

    /// Text and values.
    pub fn into_parts(self) -> (String, Vec<Value>) {
        (self.sql, self.values)
    }
}

/// A connection. Cancel safety: one whose future was dropped is in an unknown state, and not to be used again.
#[async_trait]
pub trait Link: Send {
    /// Runs a statement with values, for this once: nothing of it is left in the session.
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, sqlx::Error>;

    /// Runs statements without values, in one round trip, whose rows nobody wants.
    async fn run(&mut self, sql: &str) -> Result<(), sqlx::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_value_can_be_taken_for_sql() {
        let statement = |marks| {
            let statement = Statement::new(marks, "a = ").value("' OR 1=1").text(" AND b IN ").list([1, -2]);
            statement.text(" AND c = ").value(Value::Text(None)).into_parts()
        };
        let (text, values) = statement(Marks::Numbered);
        assert_eq!(text, "a = $1 AND b IN ($2, $3) AND c = $4");
        assert_eq!(values, ["' OR 1=1".into(), Value::from(1), (-2).into(), Value::Text(None)]);
        let (text, values) = statement(Marks::Hexadecimal);
        assert_eq!(text, "a = _utf8mb4 X'27204f5220313d31' AND b IN (1, -2) AND c = NULL");
        assert_eq!(values, []);
    }

    #[test]
    fn null_is_the_empty_text_and_no_number_is_0() {
        let row: Row = vec![None, Some("7".into())];
        assert_eq!((text(&row, 0), number(&row, 0), number(&row, 1), text(&row, 9)), ("", 0, 7, ""));
    }
}
