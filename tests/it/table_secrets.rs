//! Reports on job tables show no secret of theirs.

use onecron::config;
use onecron::config::Source;

#[test]
fn whatever_is_wrong_with_a_notifier_its_secrets_are_in_no_report() {
    let forms = [
        "s3cret",
        "'s3cret'",
        "\"http://h/s3cret?a=s3cret\"",
        "http://h/s3cret",
        "[s3cret]",
        "[[s3cret, 's3cret']]",
        "{s3cret}",
        "{a: s3cret, b: s3cret}",
        "{fromFile: s3cret}",
        "{fromFile: 'http://h/s3cret'}",
        "{fromFile: [s3cret]}",
        "{fromEnv: 'a=s3cret'}",
        "{X-Tok:s3cret}",
        "{X-Tok: \"s3cret\\n\"}",
        "{X-Tok: [s3cret]}",
        "{X-Tok: @s3cret}",
        "{Te: s3cret, ü: s3cret}",
        "*s3cret",
        "@s3cret",
        "%s3cret",
        "!s3cret s3cret",
        "'s3cret",
        "{a: s3cret",
        "a: s3cret",
        "|\n      s3cret",
        ">-\n      http://h/s3cret\n      s3cret",
        "s3cret # s3cret",
        "\n      X-Tok: 's3cret\n        s3cret'\n      bogus key: s3cret",
        "\n    - s3cret\n    - {s3cret: s3cret",
    ];
    for key in ["url", "headers", "routingKey"] {
        for form in forms {
            for kind in ["webhook", "webhok", "pagerduty", "[ping]"] {
                let lines =
                    format!("notifiers:\n  hook:\n    {key}: {form}\n    type: {kind}\n    bogus: 1\njobs: []\n");
                let flow =
                    format!("notifiers: {{hook: {{bogus: 1, {key}: {form}, type: {kind}, timeout: x}}}}\njobs: []\n");
                let named =
                    format!("x-a: &a {{bogus: 1, {key}: {form}, type: {kind}}}\nnotifiers: {{hook: *a}}\njobs: []\n");
                let joined = format!("jobs: []\nnotifiers:\n  hook: {{bogus: 1, {key}:{form}, type: {kind}}}\n");
                let glued = format!("jobs: []\nnotifiers:\n  hook: {form}\n");
                for text in [lines, flow, named, joined, glued] {
                    let problems =
                        config::load(&[Source::new("jobs.yaml", text.as_bytes().to_vec())], super::config::now())
                            .map_or_else(|problems| problems, |loaded| loaded.warnings);
                    let shown = config::render(&problems) + &serde_json::to_string(&problems).unwrap();
                    // A key is a name, and not a secret.
                    let is_key = form.contains("s3cret: ") || form == "{s3cret}";
                    assert!(!shown.contains("s3cret") || is_key, "{text}{shown}");
                }
            }
        }
    }
}
