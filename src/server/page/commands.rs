//! What can be done, as it is typed: commands that work where they are copied to, but for what is secret.

use super::Look;
use crate::shell;
use maud::Markup;
use maud::html;

/// The namespace that a command looks into if it is told of none.
const DEFAULT_NAMESPACE: &str = "default";

/// A command with the store and the namespace of this replica.
pub(super) fn command(look: &Look, words: &str) -> Markup {
    let status = &look.status;
    let store = shell::word(&status.store.url);
    html! {
        code {
            "onecron " (words) " --store " (store)
            @if status.namespace != DEFAULT_NAMESPACE { " --namespace " (shell::word(&status.namespace)) }
        }
    }
}

/// Whether commands reach the store of this replica.
pub(super) fn reach(look: &Look) -> bool {
    !look.status.store.url.starts_with("memory:")
}

/// The section of a page: what each is for, and its words.
pub(super) fn commands(look: &Look, commands: &[(&str, String)]) -> Markup {
    html! {
        section aria-labelledby="commands" {
            h2 #commands { "Commands" }
            @if reach(look) {
                dl { @for (what, words) in commands { dt { (what) } dd { (command(look, words)) } } }
                p.note {
                    "User, password and certificates of the store are not shown: where it wants them, add " code { "--store-user" } ", "
                    code { "--store-password-file" } " or " code { "--store-ca-file" } ", or set " code { "ONECRON_STORE" }
                    " to the whole URL and leave " code { "--store" } " out."
                }
            } @else {
                p { "The store is in the memory of this replica, and no command reaches it: actions go over HTTP, " code { "POST /api/v1/…" } "." }
            }
        }
    }
}
