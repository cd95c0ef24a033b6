//! Through which proxy a request goes, if any. Decided here and not by the client, so that it can be said.
//!
//! Whoever names a proxy wants nothing to go past it: a value that is not understood is a refusal, and never "no proxy".

use super::parts;
use super::parts::unusable;
use super::place::written_origin;
use crate::executor::spawn_error::SpawnError;
use crate::job::EnvValue;
use crate::job::ProxySpec;
use crate::secret::Redaction;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Proxy;
use std::ffi::OsString;
use url::Url;

/// What the job, or the daemon's environment, says about proxies.
pub(super) enum Route {
    Environment(Box<Variables>),
    Direct,
    /// With user and password, where it has them.
    Fixed(Named),
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Environment(_) => "Environment",
            Self::Direct => "Direct",
            Self::Fixed(_) => "Fixed",
        })
    }
}

/// A proxy, and what may be seen of it.
#[derive(Clone)]
pub(super) struct Named {
    url: Url,
    shown: String,
}

/// The proxies of the environment. Of each kind of address the first variable that is set and not empty counts.
pub(super) struct Variables {
    http: Option<Found>,
    https: Option<Found>,
    /// Only asked whether `NO_PROXY` names a host.
    exempt: Matcher,
}

/// What a variable has.
#[derive(Clone)]
enum Found {
    Proxy(Named),
    /// A proxy of a kind that is understood and cannot be used; of which variable.
    Socks(&'static str),
}

/// A proxy for one request.
pub(super) struct Through {
    pub(super) proxy: Proxy,
    /// Scheme, host and port, without a password.
    pub(super) shown: String,
    /// It is spoken to by TLS.
    pub(super) is_secure: bool,
}

impl Route {
    /// Reads what there is.
    ///
    /// # Errors
    /// A proxy is named, and cannot be understood.
    pub(super) fn of(spec: &ProxySpec, redaction: &Redaction) -> Result<Self, SpawnError> {
        match spec {
            ProxySpec::Environment => {
                let variables = Variables::of(|name| std::env::var_os(name), redaction)?;
                Ok(Self::Environment(Box::new(variables)))
            }
            ProxySpec::None => Ok(Self::Direct),
            ProxySpec::Url(value) => {
                const SUBJECT: &str = "`http.proxy`";
                let text = parts::string(SUBJECT, value)?;
                let url = match value {
                    EnvValue::Text(_) => parts::address(value, SUBJECT)?,
                    // One that does not stand in the table may have user and password.
                    _ => proxy_url(text.trim()).ok_or_else(|| unusable(SUBJECT, "is no http or https URL"))?,
                };
                Ok(Self::Fixed(Named { url, shown: written_origin(text.trim(), redaction) }))
            }
        }
    }

    /// The proxy for an address.
    ///
    /// # Errors
    /// There is one, and it cannot be used.
    pub(super) fn to(&self, url: &Url) -> Result<Option<Through>, String> {
        let named = match self {
            Self::Direct => return Ok(None),
            Self::Fixed(named) => named,
            Self::Environment(variables) => match variables.to(url) {
                None => return Ok(None),
                Some(Found::Proxy(named)) => named,
                Some(Found::Socks(name)) => {
                    let advice = "write another, or `proxy: none` into the job";
                    return Err(format!(
                        "the proxy in the daemon's variable `{name}` is a SOCKS proxy, and none of http: {advice}"
                    ));
                }
            },
        };
        let Named { url: proxy, shown } = named.clone();
        let is_secure = proxy.scheme() == "https";
        let proxy = Proxy::all(proxy).map_err(|_| format!("{shown} cannot be a proxy"))?;
        Ok(Some(Through { proxy, shown, is_secure }))
    }
}

impl Variables {
    /// `read` gives the value of a variable.
    fn of(read: impl Fn(&str) -> Option<OsString>, redaction: &Redaction) -> Result<Self, SpawnError> {
        let text = |name: &'static str, lower: &'static str| {
            let set = |name: &'static str| Some((name, read(name)?)).filter(|(_, value)| !value.is_empty());
            let Some((name, value)) = set(name).or_else(|| set(lower)) else { return Ok(None) };
            let subject = || format!("proxy, from the daemon's variable `{name}`,");
            let text = value.into_string().map_err(|_| unusable(&subject(), "is not UTF-8"))?;
            let text = text.trim().to_owned();
            Ok((!text.is_empty()).then_some((name, text)))
        };
        let proxy = |name, lower| {
            let Some((name, text)) = text(name, lower)? else { return Ok(None) };
            let kind = text.split("://").next().unwrap_or_default().to_ascii_lowercase();
            if text.contains("://") && matches!(&*kind, "socks4" | "socks4a" | "socks5" | "socks5h" | "socks") {
                return Ok(Some(Found::Socks(name)));
            }
            let url = proxy_url(&text).ok_or_else(|| {
                let found = "is no http or https URL: write `http://host:port` there, or `proxy: none` into the job";
                unusable(&format!("proxy, from the daemon's variable `{name}`,"), found)
            })?;
            Ok(Some(Found::Proxy(Named { url, shown: written_origin(&text, redaction) })))
        };
        let all = proxy("ALL_PROXY", "all_proxy")?;
        let exempt = text("NO_PROXY", "no_proxy")?.map_or_else(String::new, |(_, text)| text);
        // With its last dot a name means the same host.
        let exempt: Vec<&str> = exempt.split(',').map(|entry| entry.trim().trim_end_matches('.')).collect();
        let any = "http://any.invalid";
        Ok(Self {
            http: proxy("HTTP_PROXY", "http_proxy")?.or_else(|| all.clone()),
            https: proxy("HTTPS_PROXY", "https_proxy")?.or(all),
            exempt: Matcher::builder().all(any).no(exempt.join(",")).build(),
        })
    }

    fn to(&self, url: &Url) -> Option<&Found> {
        let found = if url.scheme() == "https" { &self.https } else { &self.http }.as_ref()?;
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        // What cannot be asked about is not exempt.
        let is_exempt = format!("http://{host}/").parse().is_ok_and(|uri| self.exempt.intercept(&uri).is_none());
        (!is_exempt).then_some(found)
    }
}

/// The URL of a proxy, which may have user and password, and no scheme: `host:port`.
fn proxy_url(text: &str) -> Option<Url> {
    // The parser takes white space out without a word, and forgives a missing or a third slash.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let (whole, rest) = match text.split_once("://") {
        Some((_, rest)) => (text.to_owned(), rest),
        None => (format!("http://{text}"), text),
    };
    let url = Url::parse(&whole).ok().filter(|_| !rest.starts_with(['/', '\\', '?', '#']))?;
    // Of `http:/proxy`, `http` would be the host; and behind a `/` in a password, which has to be written as `%2F`, would
    // be what is meant.
    let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    (matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare && url.port() != Some(0)).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> Result<Variables, SpawnError> {
        let value = |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value));
        Variables::of(value, &Redaction::default())
    }

    fn way(set: &[(&str, &str)], url: &str) -> Option<String> {
        let route = Route::Environment(Box::new(variables(set).unwrap()));
        route.to(&Url::parse(url).unwrap()).unwrap().map(|through| through.shown)
    }

    #[test]
    fn a_value_that_is_not_understood_is_refused_by_the_variables_name_alone() {
        for bad in [
            "http://",
            "://x",
            "ftp://127.0.0.1:1",
            "http://bad host:1",
            "garbage S3CRET",
            "http://ada:S3CRET@127.0.0.1:99999",
            "http://ada:S3CRET/x@proxy:1",
            "ada:S3CRET@",
            "http:/proxy:1",
            "http:///proxy:1",
            "htp:proxy:1",
            "http//proxy:1",
            "http://proxy:0",
            "http://proxy:port",
        ] {
            for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
                let Err(error) = variables(&[(name, bad), ("NO_PROXY", "*")]) else { panic!("{name}={bad}") };
                let error = error.to_string();
                assert!(error.contains(&format!("`{name}`")) && !error.contains("S3CRET"), "{error}");
            }
        }
        let value = |name: &str| {
            (name == "HTTP_PROXY").then(|| std::os::unix::ffi::OsStringExt::from_vec(b"http://\xff".to_vec()))
        };
        assert!(Variables::of(value, &Redaction::default()).is_err());
    }

    #[test]
    fn what_is_understood_is_used_for_its_kind_of_address() {
        let shown = Some("http://proxy:3128".to_owned());
        for good in
            ["http://proxy:3128", " http://proxy:3128/ ", "proxy:3128", "http://a:b@proxy:3128", "a:b@proxy:3128"]
        {
            for (name, url) in [("HTTP_PROXY", "http://a/"), ("https_proxy", "https://a/"), ("ALL_PROXY", "https://a/")]
            {
                assert_eq!(way(&[(name, good)], url), shown, "{name}={good}");
            }
        }
        assert_eq!(way(&[("HTTP_PROXY", "proxy:3128")], "https://a/"), None);
        for empty in ["", "  "] {
            assert_eq!(way(&[("HTTP_PROXY", empty)], "http://a/"), None);
        }
        assert_eq!(way(&[("HTTP_PROXY", ""), ("http_proxy", "proxy:3128")], "http://a/"), shown);
        // This daemon is no CGI program, in which a request could have set the variable.
        assert_eq!(way(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "proxy:3128")], "http://a/"), shown);
    }

    #[test]
    fn a_socks_proxy_is_refused_where_it_would_be_used() {
        let route = |set| Route::Environment(Box::new(variables(set).unwrap()));
        let to = |set, url| route(set).to(&Url::parse(url).unwrap()).map(|through| through.is_some());
        let set = &[("ALL_PROXY", "socks5://a:S3CRET@b"), ("HTTP_PROXY", "proxy:1"), ("NO_PROXY", "inside")];
        assert_eq!((to(set, "http://a/"), to(set, "https://inside/")), (Ok(true), Ok(false)));
        let error = to(set, "https://a/").unwrap_err();
        assert!(error.contains("`ALL_PROXY`") && !error.contains("S3CRET"), "{error}");
    }

    #[test]
    fn no_proxy_names_a_host_with_and_without_its_last_dot_in_any_case() {
        for no_proxy in [".svc.invalid", "svc.invalid", ".SVC.invalid.", "x, svc.invalid. ,y"] {
            let set = [("HTTP_PROXY", "proxy:3128"), ("NO_PROXY", no_proxy)];
            for url in ["http://a.svc.invalid/", "http://A.SVC.INVALID./", "http://svc.invalid.:8080/"] {
                assert_eq!(way(&set, url), None, "{no_proxy} {url}");
            }
            assert!(way(&set, "http://notsvc.invalid./").is_some());
        }
        let set = [("HTTP_PROXY", "proxy:3128"), ("NO_PROXY", "10.0.0.0/8,::1")];
        assert_eq!((way(&set, "http://10.1.2.3./"), way(&set, "http://[::1]:80/")), (None, None));
        assert!(way(&set, "http://11.1.2.3/").is_some());
    }
}
