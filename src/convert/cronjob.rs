//! Kubernetes CronJobs (`batch/v1`): one or several documents, or a List of them.

use super::Converted;
use super::NothingToConvert;
use super::draft::Draft;
use super::draft::Table;
use super::draft::list;
use super::draft::quoted;
use super::expand::Variables;
use crate::config::is_variable;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use serde_json::Value;
use std::collections::BTreeSet;

/// What Kubernetes takes where a manifest says nothing.
const BACKOFF_LIMIT: i64 = 6;
const SUCCESSFUL: i64 = 3;
const FAILED: i64 = 1;
const GRACE: i64 = 30;
/// Seconds.
const DAY: i64 = 86_400;

/// Makes a table of manifests.
///
/// # Errors
/// The text is no YAML, or has no CronJob.
pub fn cronjob(text: &str) -> Result<Converted, NothingToConvert> {
    let documents: Vec<Value> = serde_yaml::from_multiple(text)
        .map_err(|error| NothingToConvert(format!("the manifest is no YAML that is understood: {error}")))?;
    let mut table = Table::default();
    table.head("Made from CronJobs. A job runs where the daemon runs: with its image, its user and its files.");
    let mut found = false;
    for document in documents {
        let items = document["items"].as_array().cloned().unwrap_or_else(|| vec![document]);
        for manifest in items.iter().filter(|manifest| !manifest.is_null()) {
            let kind = manifest["kind"].as_str().unwrap_or("nothing");
            if kind == "CronJob" {
                found = true;
                read(&mut table, manifest);
            } else {
                table.note(format!("a document of kind {kind} is left out"));
            }
        }
    }
    if found {
        Ok(table.finish())
    } else {
        Err(NothingToConvert("the manifest has no document of kind CronJob".into()))
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect()
}

fn read(table: &mut Table, manifest: &Value) {
    let name = text(&manifest["metadata"]["name"]).unwrap_or("job");
    let spec = &manifest["spec"];
    let job = &spec["jobTemplate"]["spec"];
    let pod = &job["template"]["spec"];
    let container = &pod["containers"][0];
    let (mut draft, mut notes) = (Draft::default(), Vec::new());
    let Some(schedule) = text(&spec["schedule"]) else {
        return table.leave_out(&format!("CronJob {name} has no schedule"), &[]);
    };
    let (zone, schedule) = split_zone(schedule);
    if let Err(error) = Schedule::parse(schedule, &Zone::utc(), "job") {
        return table.leave_out(&format!("CronJob {name}: schedule `{schedule}`: {}", error.message), &[]);
    }
    draft.set("schedule", quoted(schedule));
    if let Some(zone) = text(&spec["timeZone"]).or(zone) {
        match Zone::find(zone) {
            Ok(found) => draft.set("timeZone", found.name()),
            Err(error) => notes.push(format!("the zone `{zone}` is left out: {error}")),
        }
    }
    let command = texts(&container["command"]).into_iter().chain(texts(&container["args"])).collect::<Vec<_>>();
    if command.is_empty() {
        let note = format!("CronJob {name} runs what its image starts with: write that as the `command` of a job");
        return table.leave_out(&note, &[format!("image: {}", text(&container["image"]).unwrap_or("none"))]);
    }
    let variables = add_env(&mut draft, &mut notes, container);
    let expanded: Vec<(String, Vec<&str>)> = command.iter().map(|word| variables.expand(word)).collect();
    let missing: BTreeSet<&str> = expanded.iter().flat_map(|(_, missing)| missing.iter().copied()).collect();
    for name in missing {
        notes.push(format!("its command has $({name}), which Kubernetes fills in, and whose value is not here: in a shell write \"${name}\""));
    }
    draft.set("command", list(&expanded.into_iter().map(|(word, _)| word).collect::<Vec<_>>()));
    if container["command"].as_array().is_none_or(Vec::is_empty) {
        notes.push("it has args and no command: what its image starts with has to stand in front of them".into());
    }
    match text(&container["workingDir"]) {
        Some(folder) if folder.starts_with('/') => draft.set("workingDir", quoted(folder)),
        Some(folder) => notes.push(format!("its workingDir `{folder}` is left out: it has to be an absolute path")),
        None => {}
    }
    add_policies(&mut draft, &mut notes, (spec, job, pod));
    add_notes(&mut notes, (job, pod, container));
    table.add(name, &notes, &draft);
}

/// Before there was `timeZone`, some wrote the zone into the schedule.
fn split_zone(schedule: &str) -> (Option<&str>, &str) {
    let prefixed = ["CRON_TZ=", "TZ="].into_iter().find_map(|prefix| schedule.strip_prefix(prefix));
    prefixed.and_then(|rest| rest.split_once(' ')).map_or((None, schedule), |(zone, rest)| (Some(zone), rest.trim()))
}

/// A number of a manifest within what a table takes; one that is not is told.
fn within(notes: &mut Vec<String>, name: &str, value: Option<i64>, (least, most): (i64, i64)) -> Option<i64> {
    let value = value?;
    let taken = value.clamp(least, most);
    if taken != value {
        notes.push(format!("its {name} of {value} is {taken} here"));
    }
    Some(taken)
}

fn add_policies(draft: &mut Draft, notes: &mut Vec<String>, (spec, job, pod): (&Value, &Value, &Value)) {
    let policy = text(&spec["concurrencyPolicy"]).unwrap_or("Allow");
    match ["Allow", "Forbid", "Replace"].into_iter().find(|known| *known == policy) {
        Some(known) => draft.set("concurrencyPolicy", known),
        None => notes.push(format!("its concurrencyPolicy `{policy}` is not known, and left out")),
    }
    let seconds = spec["startingDeadlineSeconds"].as_i64();
    if let Some(seconds) = within(notes, "startingDeadlineSeconds", seconds, (1, 30 * DAY)) {
        draft.set("startingDeadline", format!("{seconds}s"));
    }
    if spec["suspend"] == true {
        draft.set("suspend", "true");
    }
    let seconds = job["activeDeadlineSeconds"].as_i64().or_else(|| pod["activeDeadlineSeconds"].as_i64());
    let timeout = within(notes, "activeDeadlineSeconds", seconds, (1, 366 * DAY));
    draft.set("timeout", timeout.map_or_else(|| "none".to_owned(), |seconds| format!("{seconds}s")));
    let grace =
        within(notes, "terminationGracePeriodSeconds", pod["terminationGracePeriodSeconds"].as_i64(), (0, 3600));
    draft.set("terminationGracePeriod", format!("{}s", grace.unwrap_or(GRACE)));
    let limit = within(notes, "backoffLimit", job["backoffLimit"].as_i64(), (0, 100)).unwrap_or(BACKOFF_LIMIT);
    if limit > 0 {
        draft.set("retry", format!("{{limit: {limit}, backoff: 10s, maxBackoff: 6m}}"));
    }
    let mut kept = |name: &str, usual| within(notes, name, spec[name].as_i64(), (0, 100)).unwrap_or(usual);
    let (successful, failed) = (kept("successfulJobsHistoryLimit", SUCCESSFUL), kept("failedJobsHistoryLimit", FAILED));
    draft.set("history", format!("{{successful: {successful}, failed: {failed}}}"));
}

fn add_env(draft: &mut Draft, notes: &mut Vec<String>, container: &Value) -> Variables {
    let mut variables = Variables::default();
    for variable in container["env"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let Some(name) = text(&variable["name"]) else { continue };
        if !is_variable(name) {
            notes.push(format!(
                "variable `{name}` is left out: a name is of letters, digits, _, - and ., and not ONECRON_…"
            ));
            continue;
        }
        let from = &variable["valueFrom"];
        if let Some(value) = variable["value"].as_str() {
            let (value, missing) = variables.expand(value);
            for other in missing {
                notes.push(format!(
                    "variable {name} has $({other}), whose value is not here: nothing in a text is expanded"
                ));
            }
            draft.env.insert(name.into(), quoted(&value));
            variables.add(name, Some(value));
            continue;
        }
        variables.add(name, None);
        // The daemon's own pod can have the variable, or the secret as a file.
        draft.env.insert(name.into(), format!("{{fromEnv: {name}}}"));
        let (kind, key) = ["secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef"]
            .into_iter()
            .find_map(|kind| from.get(kind).map(|found| (kind, found)))
            .unwrap_or(("nothing", &Value::Null));
        let named = [&key["name"], &key["key"], &key["fieldPath"]].into_iter().filter_map(text).collect::<Vec<_>>();
        let told = named.join("/");
        notes.push(format!("variable {name} came from {kind} {told}: give it to the daemon's pod, or mount it and write {{fromFile: …}}"));
    }
    if container["envFrom"].as_array().is_some_and(|all| !all.is_empty()) {
        notes.push(
            "its envFrom is left out: give those variables to the daemon's pod; $(…) does not name them here".into(),
        );
    }
    variables
}

fn add_notes(notes: &mut Vec<String>, (job, pod, container): (&Value, &Value, &Value)) {
    if let Some(image) = text(&container["image"]) {
        notes.push(format!("it ran in image {image}: its program has to be in the daemon's image"));
    }
    let several = |value: &Value| value.as_i64().is_some_and(|count| count > 1);
    let is_there = |value: &Value| !value.is_null();
    for (found, note) in [
        (pod["containers"].as_array().is_some_and(|all| all.len() > 1), "its other containers are left out"),
        (is_there(&pod["initContainers"]), "its initContainers are left out"),
        (is_there(&pod["volumes"]), "its volumes are left out: mount them into the daemon's pod"),
        (is_there(&pod["serviceAccountName"]), "it has the daemon's service account here, and not its own"),
        (is_there(&container["resources"]), "its resources are left out: jobs share those of the daemon's pod"),
        (
            several(&job["parallelism"]) || several(&job["completions"]),
            "it ran several pods at once: here it is one run",
        ),
        (
            is_there(&container["securityContext"]) || is_there(&pod["securityContext"]),
            "its securityContext is left out",
        ),
    ] {
        if found {
            notes.push(note.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: db.backup}\nspec:\n  schedule: '15 2 * * *'\n  \
        timeZone: Europe/Madrid\n  startingDeadlineSeconds: 600\n  jobTemplate:\n    spec:\n      backoffLimit: 2\n      \
        activeDeadlineSeconds: 3600\n      template:\n        spec:\n          restartPolicy: Never\n          containers:\n          \
        - name: main\n            image: backup:1\n            command: [/bin/backup]\n            args: [--all, 5]\n            env:\n            \
        - {name: A, value: b}\n            - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: t}}}\n";

    #[test]
    fn a_manifest_keeps_its_meaning_also_where_it_says_nothing() {
        let converted = cronjob(MANIFEST).unwrap();
        for line in [
            "- name: db-backup",
            "schedule: \"15 2 * * *\"",
            "timeZone: Europe/Madrid",
            "command: [\"/bin/backup\", \"--all\", \"5\"]",
            "concurrencyPolicy: Allow",
            "startingDeadline: 600s",
            "timeout: 3600s",
            "retry: {limit: 2, backoff: 10s, maxBackoff: 6m}",
            "history: {successful: 3, failed: 1}",
            "A: \"b\"",
            "TOKEN: {fromEnv: TOKEN}",
        ] {
            assert!(converted.table.contains(line), "{line}: {}", converted.table);
        }
        assert!(converted.notes.iter().any(|note| note.contains("secretKeyRef s/t")), "{:?}", converted.notes);
        assert!(converted.notes.iter().any(|note| note.contains("image backup:1")));
    }

    #[test]
    fn what_kubernetes_fills_in_is_filled_in() {
        let args = "args: ['echo $(A) $$(A) $(date)', '$(TOKEN)']";
        let env = "{name: A, value: b}\n            - {name: C, value: '$(A)$(TOKEN)'}";
        let manifest = MANIFEST.replace("args: [--all, 5]", args).replace("{name: A, value: b}", env);
        let converted = cronjob(&manifest).unwrap();
        let command = "command: [\"/bin/backup\", \"echo b $(A) $(date)\", \"$(TOKEN)\"]";
        assert!(converted.table.contains(command), "{}", converted.table);
        assert!(converted.table.contains("C: \"b$(TOKEN)\""), "{}", converted.table);
        let told = |what: &str| converted.notes.iter().any(|note| note.contains(what));
        assert!(told("its command has $(TOKEN)"), "{:?}", converted.notes);
        // It is defined later, and Kubernetes leaves that alone.
        assert!(!told("variable C has"), "{:?}", converted.notes);
    }

    #[test]
    fn documents_and_lists_are_read_and_other_kinds_are_told() {
        let other = "kind: ConfigMap\n";
        let all = format!("{MANIFEST}---\n{other}---\n{MANIFEST}");
        let converted = cronjob(&all).unwrap();
        assert_eq!(converted.jobs, 2);
        assert!(converted.table.contains("- name: db-backup-2"));
        assert!(converted.notes.contains(&"a document of kind ConfigMap is left out".to_owned()));
        let indented = MANIFEST.replace('\n', "\n  ");
        let list = format!("kind: List\nitems:\n- {}", indented.trim_end());
        assert_eq!(cronjob(&list).unwrap().jobs, 1);
    }

    #[test]
    fn what_has_no_command_is_left_out_with_the_reason() {
        let bare = MANIFEST.replace("            command: [/bin/backup]\n            args: [--all, 5]\n", "");
        let converted = cronjob(&bare).unwrap();
        assert_eq!(converted.jobs, 0);
        assert!(converted.table.contains("jobs: []") && converted.notes[0].contains("its image starts with"));
    }

    #[test]
    fn nothing_in_a_manifest_becomes_a_job_of_its_own_or_breaks_the_table() {
        let evil = "Allow\\n  - name: evil\\n    schedule: '* * * * *'\\n    command: touch /x";
        for (from, to) in [
            ("  startingDeadlineSeconds: 600", format!("  concurrencyPolicy: \"{evil}\"")),
            ("{name: A, value: b}", format!("{{name: \"{evil}\", value: b}}")),
            ("{name: A, value: b}", "{name: A, value: \"\\u007f\\u0085\\uffff\"}".to_owned()),
            ("backoffLimit: 2", "backoffLimit: 1000".to_owned()),
            ("activeDeadlineSeconds: 3600", "activeDeadlineSeconds: 1000000000000".to_owned()),
            ("startingDeadlineSeconds: 600", "successfulJobsHistoryLimit: -1".to_owned()),
            ("image: backup:1", "workingDir: relative".to_owned()),
            ("name: db.backup", format!("name: \"{evil}\"")),
            ("Europe/Madrid", format!("\"{evil}\"")),
        ] {
            let manifest = MANIFEST.replacen(from, &to, 1);
            assert_ne!(manifest, MANIFEST, "{from}");
            let converted = cronjob(&manifest).unwrap();
            let source = crate::config::Source::new("made", converted.table.clone().into_bytes());
            let loaded = crate::config::load(&[source], chrono::DateTime::UNIX_EPOCH);
            let jobs =
                loaded.unwrap_or_else(|problems| panic!("{to}: {}", crate::config::render(&problems))).table.jobs;
            assert_eq!(jobs.len(), 1, "{to}: {}", converted.table);
        }
    }

    #[test]
    fn what_is_no_cronjob_is_refused() {
        assert!(cronjob("kind: Pod\n").unwrap_err().to_string().contains("no document of kind CronJob"));
        assert!(cronjob("a: [").unwrap_err().to_string().contains("no YAML"));
        assert!(cronjob("").is_err());
    }
}
