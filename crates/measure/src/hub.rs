//! What the hub has, over the client of control requests: its proxies, certificates and redirects.

use std::io;
use std::sync::Arc;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::{Access, AccessOptions};
use tokometer_client::proxy::Proxies;
use tokometer_client::{ApiKey, Control, Error, Settings, Url, cause};
use tokometer_tokenize::hub::{HubAnswer, HubClient, HubRequest};

/// Longest wait for the hub's answer, and for more of a file.
const STALL: Nanos = Nanos::from_secs(30);

/// Bytes of a refusal that are shown.
const REFUSAL_BYTES: usize = 300;

pub struct HubDownloads {
    access: Arc<Access>,
    clock: Arc<dyn Clock>,
}

impl HubDownloads {
    pub fn new(proxies: Proxies, clock: Arc<dyn Clock>) -> Self {
        let access = Access::new(AccessOptions { proxies, ..AccessOptions::default() });
        Self { access: Arc::new(access), clock }
    }
}

impl HubClient for HubDownloads {
    fn get(&self, request: HubRequest<'_>, sink: &mut dyn io::Write) -> Result<HubAnswer, String> {
        let url = Url::parse(request.endpoint).map_err(|why| why.to_string())?;
        let mut settings = Settings::new(url, "");
        settings.api_key = request.token.map(|token| ApiKey::Bearer(token.to_owned()));
        let (access, clock) = (Arc::clone(&self.access), Arc::clone(&self.clock));
        let control = Control::new(&settings, access, STALL, clock);
        let answers = control.download(request.path, sink).map_err(|why| unreached(&why))?;
        let last = answers.last();
        let refusal = last.map(|answer| &answer.body[..answer.body.len().min(REFUSAL_BYTES)]);
        Ok(HubAnswer {
            status: last.map_or(0, |answer| answer.status),
            refusal: String::from_utf8_lossy(refusal.unwrap_or_default()).into_owned(),
            headers: answers.into_iter().flat_map(|answer| answer.headers).collect(),
        })
    }
}

/// Why the hub was not reached. The flags of a target, which errors of the transport advise, are not for it.
fn unreached(why: &Error) -> String {
    let Error::Reach { address, source } = why else { return why.to_string() };
    match cause::certificate_fault(source) {
        Some(fault) => format!(
            "cannot reach {address}: {fault}; set `SSL_CERT_FILE` to a file with that of its authority"
        ),
        None => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc::{Receiver, channel};

    use tokometer_base::MonotonicClock;
    use tokometer_tokenize::hub::{HubAccess, NetworkUse, RepoKind};

    use super::*;

    /// A server on loopback that answers by the request line. It tells the head of every request.
    fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> (SocketAddr, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let read = BufReader::new(stream.try_clone().unwrap()).lines();
                let lines: Vec<String> =
                    read.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
                let body = answer(&lines[0]);
                let _ = heard.send(lines.join("\n"));
                let _ = stream.write_all(body.as_bytes());
            }
        });
        (address, requests)
    }

    fn answer(status: &str, headers: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
    }

    fn access(endpoint: String, cache: &std::path::Path, proxies: Proxies) -> HubAccess {
        HubAccess {
            endpoint: Some(endpoint),
            token: Some("hf_secret".to_owned()),
            token_file: None,
            cache: Some(cache.join("hub")),
            traffic: NetworkUse::Fetch,
            client: Some(Arc::new(HubDownloads::new(proxies, Arc::new(MonotonicClock)))),
        }
    }

    const DESCRIBED: &str = "X-Repo-Commit: c0ffee\r\nX-Linked-Etag: \"b10b\"\r\n";

    /// The key went to whatever host the hub named.
    #[test]
    fn the_key_stays_with_the_hub_and_the_cache_is_that_of_python() {
        let folder = tempfile::tempdir().unwrap();
        let (store, asked_of_store) = serve(|_| answer("200 OK", "ETag: \"other\"\r\n", "{}"));
        let (hub, asked_of_hub) = serve(move |_| {
            let location = format!("Location: http://{store}/blob?signature=a%2Fb\r\n");
            answer("302 Found", &(location + DESCRIBED), "")
        });
        let mut access = access(format!("http://{hub}/hf/"), folder.path(), Proxies::default());
        let repository = access.repository("org/name", RepoKind::Dataset);
        let path = repository.file("data/a b.json").unwrap();
        let heard = asked_of_hub.recv().unwrap();
        let line = "GET /hf/datasets/org/name/resolve/main/data/a%20b.json HTTP/1.1";
        assert!(heard.starts_with(line), "{heard}");
        assert!(heard.contains("Authorization: Bearer hf_secret"), "{heard}");
        let heard = asked_of_store.recv().unwrap();
        assert!(heard.starts_with("GET /blob?signature=a%2Fb HTTP/1.1"), "{heard}");
        assert!(!heard.contains("hf_secret"), "{heard}");
        let cached = folder.path().join("hub/datasets--org--name");
        assert_eq!(path, cached.join("snapshots/c0ffee/data/a b.json"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
        let target = std::fs::read_link(&path).unwrap();
        assert_eq!(target, std::path::Path::new("../../../blobs/b10b"));
        assert_eq!(std::fs::read_to_string(cached.join("refs/main")).unwrap(), "c0ffee");
        access.traffic = NetworkUse::CacheOnly;
        let repository = access.repository("org/name", RepoKind::Dataset);
        assert_eq!(repository.file("data/a b.json").unwrap(), path);
        assert_eq!(repository.files().unwrap(), ["data/a b.json"]);
    }

    #[test]
    fn files_are_listed_by_the_hub_and_reached_through_a_proxy() {
        let folder = tempfile::tempdir().unwrap();
        let (proxy, asked) = serve(|_| {
            let body = r#"{"sha":"c0ffee","siblings":[{"rfilename":"a.json"},{"rfilename":"b"}]}"#;
            answer("200 OK", "", body)
        });
        let proxies = Proxies { http: Some(format!("http://{proxy}")), ..Proxies::default() };
        let access = access("http://hub.test".to_owned(), folder.path(), proxies);
        let files = access.repository("org/name", RepoKind::Model).files().unwrap();
        assert_eq!(files, ["a.json", "b"]);
        let heard = asked.recv().unwrap();
        let line = "GET http://hub.test/api/models/org/name/revision/main HTTP/1.1";
        assert!(heard.starts_with(line), "{heard}");
    }

    #[test]
    fn what_is_cut_refused_or_no_file_of_a_hub_is_not_kept() {
        let check = |answer: String, name: &str, said: &str| {
            let folder = tempfile::tempdir().unwrap();
            let (hub, _asked) = serve(move |_| answer.clone());
            let access = access(format!("http://{hub}"), folder.path(), Proxies::default());
            let failed = access.repository("org/name", RepoKind::Model).file(name).unwrap_err();
            assert!(failed.to_string().contains(said), "{failed}");
            let blobs = std::fs::read_dir(folder.path().join("hub/models--org--name/blobs"));
            assert_eq!(blobs.map_or(0, Iterator::count), 0, "{said}");
        };
        let cut = format!("HTTP/1.1 200 OK\r\n{DESCRIBED}content-length: 9\r\n\r\n{{}}");
        check(cut, "a.json", "before its end");
        check(answer("401 No", "", "gated"), "a.json", "status 401: gated");
        check(answer("200 OK", "", "{}"), "a.json", "no `x-repo-commit`");
        let out = "X-Repo-Commit: ..\r\nETag: a\r\n";
        check(answer("200 OK", out, "{}"), "a.json", "no `x-repo-commit`");
        check(answer("200 OK", DESCRIBED, "{}"), "../a.json", "leads out of the cache");
    }
}
