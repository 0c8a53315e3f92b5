//! Requests that generate nothing. vLLM's clients stop their timer at the response's header, SGLang's and ours when
//! the body is complete.

use tokometer_base::Nanos;
use tokometer_figures::Family;
use tokometer_record::Timeline;

use super::lens::{self, ToolView};

pub(super) fn see(timeline: &Timeline, family: Family) -> ToolView {
    let start = lens::start(timeline);
    let times = &timeline.times;
    let stop = match family {
        Family::Sglang => times.end,
        Family::Vllm | Family::OldVllm | Family::VllmRust => times.headers.or(times.end),
    };
    let latency = stop.map_or(Nanos::ZERO, |stop| stop - start);
    let reported = lens::reported_prompt(timeline);
    // SGLang's totals use the client's counts here as well.
    let input_tokens = match family {
        Family::Sglang => lens::requested_prompt(timeline),
        Family::Vllm | Family::OldVllm | Family::VllmRust => reported,
    };
    ToolView {
        start,
        // The tools have no other time for it; no layout prints it.
        ttft: latency,
        latency,
        input_tokens,
        listed_input_tokens: reported,
        is_success: timeline.is_success(),
        ..ToolView::default()
    }
}
