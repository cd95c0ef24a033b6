//! Presences as rows.

use super::Failure;
use super::rows::Table;
use crate::job::Presence;
use crate::job::ReplicaId;
use sqlx::Row;
use std::sync::Arc;

const SAVE: &str = "INSERT INTO replica (namespace, name, number, written_at, presence) VALUES (?, ?, ?, ?, ?) \
                    ON CONFLICT (namespace, name) DO UPDATE SET number = excluded.number, \
                    written_at = excluded.written_at, presence = excluded.presence";
const REMOVE: &str = "DELETE FROM replica WHERE namespace = ?1 AND name = ?2 AND coalesce(?3, number) = number";
const ALL: &str = "SELECT name, number, written_at, presence FROM replica WHERE namespace = ? ORDER BY name";

fn number(presence: &Presence) -> i64 {
    i64::try_from(presence.number).unwrap_or(i64::MAX)
}

impl Table<'_> {
    pub async fn save_member(&mut self, mine: &Presence, at: i64) -> Result<(), Failure> {
        let query = sqlx::query(SAVE).bind(self.namespace.to_string()).bind(mine.name.as_str());
        let query = query.bind(number(mine)).bind(at).bind(mine.to_text());
        query.execute(&mut *self.connection).await?;
        Ok(())
    }

    /// Removes a member, with a number only if it still has that one.
    pub async fn remove_member(&mut self, who: &ReplicaId, number: Option<u64>) -> Result<(), Failure> {
        let number = number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let query = sqlx::query(REMOVE).bind(self.namespace.to_string()).bind(who.as_str()).bind(number);
        query.execute(&mut *self.connection).await?;
        Ok(())
    }

    pub async fn members(&mut self) -> Result<Vec<Arc<Presence>>, Failure> {
        let query = sqlx::query(ALL).bind(self.namespace.to_string());
        let rows = query.fetch_all(&mut *self.connection).await?;
        let mut members = Vec::with_capacity(rows.len());
        for row in &rows {
            let (name, text): (String, String) = (row.try_get("name")?, row.try_get("presence")?);
            let number = u64::try_from(row.try_get::<i64, _>("number")?).unwrap_or(0);
            // The columns count: they are what a removal compares, even where the text cannot be read.
            members.push(Arc::new(Presence {
                number,
                written_at: row.try_get("written_at")?,
                ..Presence::from_text(&name, &text)
            }));
        }
        Ok(members)
    }
}
