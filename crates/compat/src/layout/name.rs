//! The layouts by name, and the choice among them.

use tokometer_base::Backend;
use tokometer_base::backend::ServerKind;
use tokometer_figures::Family;

use super::table::LayoutTable;
use super::{sglang, vllm, vllm_rust};
use crate::Error;

/// A look of a printed report, with the definitions that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    V1,
    V2,
    V3,
    V35,
    V4,
    V5,
    Vr,
    S0,
    S1,
    S2,
    S3,
    Tokometer,
}

/// What is known of a layout that another tool prints.
struct ToolLayout {
    layout: Layout,
    name: &'static str,
    /// Which tool prints it.
    about: &'static str,
    family: Family,
    table: &'static LayoutTable,
}

const fn tool(
    layout: Layout,
    name: &'static str,
    about: &'static str,
    family: Family,
    table: &'static LayoutTable,
) -> ToolLayout {
    ToolLayout { layout, name, about, family, table }
}

static TOOLS: [ToolLayout; 11] = [
    tool(Layout::V1, "v1", "vLLM 0.4 to 0.5", Family::OldVllm, &vllm::V1),
    tool(Layout::V2, "v2", "vLLM 0.6 to 0.10, and the fork for TGI", Family::OldVllm, &vllm::V2),
    tool(Layout::V3, "v3", "vLLM, autumn of 2025", Family::Vllm, &vllm::V3),
    tool(Layout::V35, "v3.5", "vLLM, autumn of 2025, with failures", Family::Vllm, &vllm::V35),
    tool(Layout::V4, "v4", "vLLM since the end of 2025", Family::Vllm, &vllm::V4),
    tool(Layout::V5, "v5", "vLLM with the client's queue", Family::Vllm, &vllm::V5),
    tool(Layout::Vr, "vr", "vLLM's Rust client", Family::VllmRust, &vllm_rust::VR),
    tool(Layout::S0, "s0", "SGLang, January 2025", Family::Sglang, &sglang::S0),
    tool(Layout::S1, "s1", "SGLang, 2025", Family::Sglang, &sglang::S1),
    tool(Layout::S2, "s2", "SGLang, end of 2025", Family::Sglang, &sglang::S2),
    tool(Layout::S3, "s3", "SGLang, newest", Family::Sglang, &sglang::S3),
];

impl Layout {
    /// All layouts, oldest of each family first. A block that fits several is the first of them.
    pub fn all() -> impl Iterator<Item = Self> {
        TOOLS.iter().map(|row| row.layout).chain([Self::Tokometer])
    }

    /// Its row; `None` for our own summary.
    fn tool(self) -> Option<&'static ToolLayout> {
        TOOLS.iter().find(|row| row.layout == self)
    }

    /// The name in `--layout NAME`.
    pub fn name(self) -> &'static str {
        self.tool().map_or("tokometer", |row| row.name)
    }

    pub fn about(self) -> &'static str {
        self.tool().map_or("our own summary", |row| row.about)
    }

    pub fn named(name: &str) -> Result<Self, Error> {
        Self::all()
            .find(|layout| layout.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| Error::UnknownLayout { name: name.to_owned(), known: Self::names() })
    }

    pub fn names() -> String {
        Self::all().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// The newest layout of the backend's own tool: vLLM's for `vllm` and `openai*`, SGLang's for
    /// `sglang*`, and for `tgi` the one its fork prints.
    pub fn for_backend(backend: &str) -> Self {
        match Backend::named(backend).map(Backend::server) {
            Some(ServerKind::Tgi) => Self::V2,
            Some(ServerKind::Sglang) => Self::S3,
            _ => Self::V4,
        }
    }

    /// Whose definitions it prints; `None` for our own.
    pub fn family(self) -> Option<Family> {
        self.tool().map(|row| row.family)
    }

    /// Its table of lines. Our own summary is not a table.
    pub(crate) fn table(self) -> Option<&'static LayoutTable> {
        self.tool().map(|row| row.table)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayoutChoice {
    /// The newest of the backend's own tool.
    #[default]
    Auto,
    /// The one the block was printed in.
    Same,
    Named(Layout),
}

impl LayoutChoice {
    /// The choice of this name: `auto`, `same`, or that of a layout.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name {
            "auto" => Ok(Self::Auto),
            "same" => Ok(Self::Same),
            _ => Layout::named(name).map(Self::Named),
        }
    }

    pub fn for_backend(self, backend: &str) -> Layout {
        match self {
            Self::Named(layout) => layout,
            Self::Auto | Self::Same => Layout::for_backend(backend),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_a_name_that_finds_it() {
        for layout in Layout::all() {
            assert_eq!(Layout::named(layout.name()).unwrap(), layout);
            assert_eq!(layout.table().is_none(), layout == Layout::Tokometer);
        }
        assert_eq!(Layout::named("V3.5").unwrap(), Layout::V35);
        let message = Layout::named("v9").unwrap_err().to_string();
        assert!(message.contains("`v9`") && message.contains("v3.5"), "{message}");
    }

    #[test]
    fn a_backend_is_reported_in_its_own_tool_s_layout() {
        let check = |backend: &str, layout: Layout| {
            assert_eq!(LayoutChoice::Auto.for_backend(backend), layout, "{backend}");
        };
        check("vllm", Layout::V4);
        check("openai-chat", Layout::V4);
        check("sglang-oai-chat", Layout::S3);
        check("tgi", Layout::V2);
    }
}
