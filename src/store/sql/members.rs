//! Presences as rows.

use super::Failure;
use super::link::number;
use super::link::text;
use super::table::Table;
use crate::job::Presence;
use crate::job::ReplicaId;
use std::sync::Arc;

fn number_of(presence: &Presence) -> i64 {
    i64::try_from(presence.number).unwrap_or(i64::MAX)
}

impl Table<'_> {
    pub async fn save_member(&mut self, mine: &Presence, at: i64) -> Result<(), Failure> {
        let row =
            self.statement("INSERT INTO onecron_replica (namespace, name, number, written_at, presence) VALUES (");
        let row = row.value(self.namespace).text(", ").value(mine.name.as_str()).text(", ").value(number_of(mine));
        let row = row.text(", ").value(at).text(", ").value(mine.to_text()).text(")");
        let end = self.dialect.or_update(&["namespace", "name"], &["number", "written_at", "presence"]);
        self.rows(row.text(&end)).await?;
        Ok(())
    }

    /// Removes members, each only if it still has the number that it had when it was seen.
    pub async fn remove_members(&mut self, gone: &[Presence]) -> Result<(), Failure> {
        for member in gone {
            let delete = self.statement("DELETE FROM onecron_replica WHERE namespace = ").value(self.namespace);
            let delete = delete.text(" AND name = ").value(member.name.as_str());
            self.rows(delete.text(" AND number = ").value(number_of(member))).await?;
        }
        Ok(())
    }

    /// Removes a member, whatever its number.
    pub async fn remove_member(&mut self, who: &ReplicaId) -> Result<(), Failure> {
        let delete = self.statement("DELETE FROM onecron_replica WHERE namespace = ").value(self.namespace);
        self.rows(delete.text(" AND name = ").value(who.as_str())).await?;
        Ok(())
    }

    pub async fn members(&mut self) -> Result<Vec<Arc<Presence>>, Failure> {
        let query = self.statement("SELECT name, number, written_at, presence FROM onecron_replica WHERE namespace = ");
        let rows = self.rows(query.value(self.namespace).text(" ORDER BY name")).await?;
        // The columns count: they are what a removal compares, even where the text cannot be read.
        let member = |row| {
            Arc::new(Presence {
                number: u64::try_from(number(row, 1)).unwrap_or(0),
                written_at: number(row, 2),
                ..Presence::from_text(text(row, 0), text(row, 3))
            })
        };
        Ok(rows.iter().map(member).collect())
    }
}
