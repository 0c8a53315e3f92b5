//! What the figures of the dashboard mean.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

pub(super) fn render(frame: &mut Frame<'_>) {
    let lines = [
        "in flight     requests sent and not finished",
        "req/s sent    mean while sending, of the target rate",
        "finished/s    over the last second; failed requests count",
        "output tok/s  over the last second, one per content event",
        "TTFT, TPOT    of successful requests so far, within 1.2 %",
        "server        its own metrics; of several: sum, highest %",
        "notes         as judged if the run ended now",
        "",
        "q, Ctrl-C     stop sending, wait for the rest, report",
        "?             close this help",
    ];
    let area = frame.area();
    let width = area.width.min(76);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    let rows = lines.iter().map(|line| line.chars().count() / inner + 1).sum::<usize>();
    let height = area.height.min(u16::try_from(rows + 2).unwrap_or(u16::MAX));
    let area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(*line)).collect();
    let help = Paragraph::new(text).wrap(Wrap { trim: false });
    frame.render_widget(help.block(Block::bordered().title(" help ")), area);
}
