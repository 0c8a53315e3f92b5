//! As much of the `WebDriver` protocol as the page's test needs, over one loopback socket per call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// A headless browser with one window. Both processes end when it is dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Button {
    Up,
    Down,
}

/// Flags that keep the browser to itself: no sandbox as root, no background traffic.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
];

impl Browser {
    pub(crate) fn start(profile: &std::path::Path) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start chromedriver: `cargo xtask ci --install` installs it")?;
        let mut browser = Self { driver, port, session: String::new() };
        browser.wait_until_ready()?;
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", profile.display()));
        let answer = browser.call(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": flags},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }}}),
        )?;
        let session = answer["sessionId"].as_str().context("the driver gave no session")?;
        browser.session = format!("/session/{session}");
        browser.take_focus()?;
        Ok(browser)
    }

    /// Some versions leave a headless window without the focus, and elements then get no focus event.
    fn take_focus(&self) -> Result<()> {
        let body = json!({
            "cmd": "Emulation.setFocusEmulationEnabled",
            "params": {"enabled": true},
        });
        self.call("POST", &format!("{}/goog/cdp/execute", self.session), &body)?;
        Ok(())
    }

    fn wait_until_ready(&self) -> Result<()> {
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("chromedriver does not listen")
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let value = answer["value"].clone();
        ensure!(value.get("error").is_none(), "{method} {path}: {value}");
        Ok(value)
    }

    pub(crate) fn open(&self, address: &str) -> Result<()> {
        self.call("POST", &format!("{}/url", self.session), &json!({"url": address}))?;
        Ok(())
    }

    pub(crate) fn resize(&self, width: u32, height: u32) -> Result<()> {
        let body = json!({"width": width, "height": height});
        self.call("POST", &format!("{}/window/rect", self.session), &body)?;
        Ok(())
    }

    /// Runs a script in the page and gives what it returns.
    pub(crate) fn script(&self, script: &str) -> Result<Value> {
        self.call(
            "POST",
            &format!("{}/execute/sync", self.session),
            &json!({"script": script, "args": []}),
        )
    }

    pub(crate) fn hover(&self, points: &[(i64, i64)]) -> Result<()> {
        self.mouse(points, Button::Up)
    }

    /// Moves the mouse through `points` with its button down from the first to the last.
    pub(crate) fn drag(&self, points: &[(i64, i64)]) -> Result<()> {
        self.mouse(points, Button::Down)
    }

    fn mouse(&self, points: &[(i64, i64)], button: Button) -> Result<()> {
        let mut actions = Vec::new();
        for (number, (x, y)) in points.iter().enumerate() {
            actions.push(json!({"type": "pointerMove", "duration": 100, "x": x, "y": y}));
            if button == Button::Down && number == 0 {
                actions.push(json!({"type": "pointerDown", "button": 0}));
            }
        }
        if button == Button::Down {
            actions.push(json!({"type": "pointerUp", "button": 0}));
        }
        let body = json!({"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]});
        self.call("POST", &format!("{}/actions", self.session), &body)?;
        Ok(())
    }

    /// What a log of the browser holds: `browser` is the console, `performance` the network.
    pub(crate) fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let body = json!({ "type": kind });
        let entries = self.call("POST", &format!("{}/se/log", self.session), &body)?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.call("DELETE", &self.session, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
