//! Pages, opened in a browser that nobody sees.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a browser may take, with much else going on.
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns the browser. Where there is none, that is said aloud, and a failure with `CI=true`.
pub fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let named = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let mut places =
        std::env::split_paths(&paths).flat_map(|path| named.map(|name| path.join(name)));
    let found = places.find(|place| place.is_file());
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(found.is_some() || !is_ci, "no Chromium to look at the page with: install chromium");
    if found.is_none() {
        println!("skipped: no Chromium to look at the page with");
    }
    found
}

/// The sizes of windows in which every page is looked at: a large one and a flat one.
pub const SIZES: [(u32, u32); 2] = [(1400, 900), (1000, 600)];

/// A page, and the window that it is shown in.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Where it lies, and where the browser may write.
    pub directory: &'a Path,
    /// Its file there.
    pub file: &'a str,
    /// The place in the page, with its `#`, or nothing.
    pub place: &'a str,
    /// The width and the height of the window.
    pub size: (u32, u32),
    /// Whether colours are dark ones.
    pub is_dark: bool,
    /// True of a page that needs frames, which are shown in real time only: it is looked at when it
    /// has loaded. Others have time that passes by itself, however slow the machine.
    pub has_frames: bool,
}

impl<'a> Page<'a> {
    /// A page in the largest window, with light colours.
    pub fn new(directory: &'a Path, file: &'a str) -> Page<'a> {
        Page { directory, file, place: "", size: SIZES[0], is_dark: false, has_frames: false }
    }

    /// The page in windows of all sizes, with light and with dark colours.
    pub fn everywhere(self) -> impl Iterator<Item = Page<'a>> {
        let schemes = move |size| [false, true].map(|is_dark| Page { size, is_dark, ..self });
        SIZES.into_iter().flat_map(schemes)
    }

    /// Opens the page, and returns the start tag of the document after all was looked at.
    pub fn look(&self, browser: &Path) -> String {
        let mut child = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .arg(format!("--window-size={},{}", self.size.0, self.size.1))
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!self.is_dark)))
            .arg(format!("--user-data-dir={}", self.directory.join("profile").display()))
            // A canvas may be read after an image of a file was drawn on it.
            .arg("--allow-file-access-from-files")
            .args((!self.has_frames).then_some("--virtual-time-budget=60000"))
            .arg("--dump-dom")
            .arg(format!("file://{}{}", self.directory.join(self.file).display(), self.place))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let mut output = child.stdout.take().expect("its output is a pipe");
        let reader = std::thread::spawn(move || {
            let mut document = String::new();
            output.read_to_string(&mut document).map(|_| document)
        });
        let began = Instant::now();
        while !reader.is_finished() {
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let _ = child.wait();
        let document = reader.join().expect("reading does not panic").expect("it is text");
        let start = document.find("<html");
        let start = start.unwrap_or_else(|| panic!("no document: {document:.200}"));
        document[start..].split('>').next().unwrap_or_default().to_owned()
    }
}

/// Returns what a page has written into an attribute of its start tag.
pub fn found(tag: &str, name: &str) -> String {
    let key = format!("data-{name}=\"");
    let rest = tag.split_once(&key).unwrap_or_else(|| panic!("no {name} in {tag}")).1;
    rest.split('"').next().unwrap_or_default().to_owned()
}
