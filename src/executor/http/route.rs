//! Through which proxy a request goes, if any. Decided here and not by the client, so that it can be said.

use super::parts;
use crate::executor::spawn_error::SpawnError;
use crate::job::EnvValue;
use crate::job::ProxySpec;
use crate::job::origin;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Proxy;
use url::Url;

/// What the job, or the daemon's environment, says about proxies.
pub(super) enum Route {
    Environment(Box<Matcher>),
    Direct,
    /// With user and password, where it has them.
    Fixed(Box<Url>),
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

/// A proxy for one request.
pub(super) struct Through {
    pub(super) proxy: Proxy,
    /// Scheme, host and port, without a password.
    pub(super) origin: String,
    /// It is spoken to by TLS.
    pub(super) is_secure: bool,
}

impl Route {
    pub(super) fn of(spec: &ProxySpec) -> Result<Self, SpawnError> {
        match spec {
            ProxySpec::Environment => Ok(Self::Environment(Box::new(Matcher::from_env()))),
            ProxySpec::None => Ok(Self::Direct),
            ProxySpec::Url(value) => fixed(value).map(|url| Self::Fixed(Box::new(url))),
        }
    }

    /// The proxy for an address.
    pub(super) fn to(&self, url: &Url) -> Result<Option<Through>, String> {
        let (proxy, basic) = match self {
            Self::Direct => return Ok(None),
            Self::Fixed(proxy) => ((**proxy).clone(), None),
            Self::Environment(matcher) => {
                let target = url.as_str().parse().map_err(|_| "the URL is too long for a proxy".to_owned())?;
                let Some(intercept) = matcher.intercept(&target) else { return Ok(None) };
                let proxy = Url::parse(&intercept.uri().to_string()).ok();
                let proxy = proxy.filter(|proxy| matches!(proxy.scheme(), "http" | "https"));
                let proxy = proxy.ok_or_else(|| {
                    let names = "`HTTP_PROXY`, `HTTPS_PROXY` or `ALL_PROXY`";
                    format!("the proxy in {names} is no http or https URL: write another, or `proxy: none`")
                })?;
                (proxy, intercept.basic_auth().cloned())
            }
        };
        let (origin, is_secure) = (origin(&proxy), proxy.scheme() == "https");
        let mut through = Proxy::all(proxy).map_err(|_| format!("{origin} cannot be a proxy"))?;
        if let Some(basic) = basic {
            through = through.custom_http_auth(basic);
        }
        Ok(Some(Through { proxy: through, origin, is_secure }))
    }
}

/// The URL of a proxy; one that does not stand in the table may have user and password.
fn fixed(value: &EnvValue) -> Result<Url, SpawnError> {
    const SUBJECT: &str = "`http.proxy`";
    if let EnvValue::Text(_) = value {
        return parts::address(value, SUBJECT);
    }
    let text = parts::string(SUBJECT, value)?;
    let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| parts::unusable(SUBJECT, "is no http or https URL"))
}
