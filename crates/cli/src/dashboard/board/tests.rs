//! Screens, drawn on a terminal in memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

#[test]
fn a_name_from_outside_draws_nothing_but_itself() {
    let goal = Goal { requests: Some(1), seconds: None };
    let mut board = Board::new("a\u{1b}[2J\nb\u{202e}".into(), goal, None);
    board.push(BoardValues { notes: vec!["x\u{9b}1m".into()], ..BoardValues::default() });
    let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(!screen.chars().any(|letter| letter.is_control() && letter != '\n'), "{screen:?}");
    assert!(!screen.contains('\u{202e}'), "{screen:?}");
}

#[test]
fn a_screen_says_for_what_a_run_waits() {
    let mut board = Board::new("nightly".into(), Goal::default(), None);
    let waiting = Some("waiting for 2 other shards".to_owned());
    board.push(BoardValues { waiting, ..BoardValues::default() });
    let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("waiting for 2 other shards"), "{screen}");
    assert!(!screen.contains("elapsed"), "{screen}");
}

#[test]
fn a_screen_shows_progress_rates_gauges_and_notes() {
    let goal = Goal { requests: Some(100), seconds: None };
    let title = "nightly · point 3 of 8 · 5 req/s";
    let mut board = Board::new(title.into(), goal, Some(5.0));
    for second in 1..=20_u64 {
        board.push(BoardValues {
            elapsed: Nanos::from_secs(second),
            sending: Nanos::from_secs(second),
            counts: LiveCounts {
                sent: second * 4,
                succeeded: second * 2,
                failed: 1,
                tokens: second * second * 50,
                ttft_mean: Some(Nanos::from_millis(42)),
                ..LiveCounts::default()
            },
            is_stopping: false,
            silent: None,
            latencies: [
                Some(LivePercentiles {
                    p50: Nanos::from_millis(42),
                    p90: Nanos::from_millis(80),
                    p99: Nanos::from_millis(1_230),
                }),
                None,
            ],
            gauges: LiveGauges {
                running: Some(12.0),
                kv_cache_percent: Some(25.5),
                ..LiveGauges::default()
            },
            notes: vec!["failures (SUSPECT): 1 of 41, last: status 503".into()],
            waiting: None,
        });
    }
    let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    insta::assert_snapshot!(terminal.backend(), @r#"
    "┌ nightly · point 3 of 8 · 5 req/s ──────────────────────────────────────────┐"
    "│█████████████41 of 100 requests, 20 s elapsed, about 29 s left              │"
    "└────────────────────────────────────────────────────────────────────────────┘"
    "┌──────────────┐┌─────────────┐┌──────────────┐┌─────────────┐┌──────────────┐"
    "│      39      ││  4.0 of 5   ││       2      ││    1800     ││       1      │"
    "│   in flight  ││ req/s sent  ││  finished/s  ││output tok/s ││    failed    │"
    "└──────────────┘└─────────────┘└──────────────┘└─────────────┘└──────────────┘"
    "┌ TTFT ───────────────────────────────┐┌ TPOT ───────────────────────────────┐"
    "│    42.0 ms    80.0 ms    1.23 s     ││       –          –          –       │"
    "│      p50        p90        p99      ││      p50        p90        p99      │"
    "└─────────────────────────────────────┘└─────────────────────────────────────┘"
    "┌ output tok/s ───────────────────────┐┌ requests in flight ─────────────────┐"
    "│  1950                         ▁▁▃▅▅█││    39                         ▁▁▃▅▅█│"
    "│                         ▁▁▃▅▅▇██████││                         ▁▁▃▅▅▇██████│"
    "│                   ▁▁▃▅▅▇████████████││                   ▁▁▃▅▅▇████████████│"
    "│             ▁▁▃▅▅▇██████████████████││             ▁▁▃▅▅▇██████████████████│"
    "│     0 ▁▁▃▅▅▇████████████████████████││     0 ▁▁▃▅▅▇████████████████████████│"
    "│       0 s                       20 s││       0 s                       20 s│"
    "└─────────────────────────────────────┘└─────────────────────────────────────┘"
    "┌ server ────────────────────────────────────────────────────────────────────┐"
    "│running 12 · KV cache usage 25.5 %                                          │"
    "└────────────────────────────────────────────────────────────────────────────┘"
    "┌ notes, as judged if the run ended now ─────────────────────────────────────┐"
    "│failures (SUSPECT): 1 of 41, last: status 503                               │"
    "└────────────────────────────────────────────────────────────────────────────┘"
    "q or Ctrl-C: stop sending, drain and report · ?: help                         "
    "#);
}

/// The charts showed the last seven seconds.
#[test]
fn the_charts_show_the_whole_run_however_long_it_is() {
    let course = [vec![10; 50_000], vec![30; 50_000]].concat();
    let shown = columns(&course, 30);
    assert_eq!((shown.len(), shown[0], shown[14], shown[29]), (30, 10, 10, 30));
    assert_eq!(columns(&[1, 2], 4), [1, 1, 2, 2]);
    assert!(columns(&[], 4).is_empty());
}

/// Boxes of eight columns cut their labels.
#[test]
fn a_small_screen_has_every_figure_in_lines() {
    let goal = Goal { requests: Some(100), seconds: None };
    let mut board = Board::new("nightly".into(), goal, Some(5.0));
    let percentiles = LivePercentiles {
        p50: Nanos::from_millis(42),
        p90: Nanos::from_millis(80),
        p99: Nanos::from_millis(1_230),
    };
    board.push(BoardValues {
        elapsed: Nanos::from_secs(20),
        sending: Nanos::from_secs(20),
        counts: LiveCounts { sent: 80, succeeded: 40, failed: 1, ..LiveCounts::default() },
        latencies: [Some(percentiles), None],
        gauges: LiveGauges {
            running: Some(39.0),
            waiting: Some(0.0),
            kv_cache_percent: Some(0.13),
            gpu_percent: Some(64.6),
            gpu_memory_mib: Some(122_880.0),
            gpu_power_w: Some(493.4),
        },
        notes: vec!["failures (SUSPECT): 1 of 41, last: status 503".into()],
        ..BoardValues::default()
    });
    let mut terminal = Terminal::new(TestBackend::new(40, 15)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    insta::assert_snapshot!(terminal.backend(), @r#"
    "nightly                                 "
    "41 of 100 requests, 20 s elapsed, about "
    "29 s left                               "
    "in flight 39 · req/s sent 4.0 of 5 ·    "
    "finished/s 2 · output tok/s 0 · failed 1"
    "TTFT p50 42.0 ms · p90 80.0 ms · p99    "
    "1.23 s                                  "
    "TPOT p50 – · p90 – · p99 –              "
    "server running 39 · waiting 0 · KV cache"
    "usage 0.1 % · GPU 64.6 % · 120 GiB · 493"
    "W                                       "
    "q or Ctrl-C: stop sending, drain and    "
    "report · ?: help                        "
    "note failures (SUSPECT): 1 of 41, last: "
    "status 503                              "
    "#);
}

/// A note of two lines was cut after the first on a terminal of 24 rows.
#[test]
fn a_long_note_is_shown_whole_on_an_ordinary_terminal() {
    let mut board = Board::new("run".into(), Goal::default(), None);
    let note = "late-sends: 4 of 123 requests were sent more than 5 ms late (worst 20.1 ms); \
                judged by its effect at the end";
    let gauges = LiveGauges { running: Some(2.0), ..LiveGauges::default() };
    board.push(BoardValues { gauges, notes: vec![note.into()], ..BoardValues::default() });
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("at the end"), "{screen}");
}

#[test]
fn a_question_mark_explains_the_figures_and_closes_again() {
    let goal = Goal { requests: None, seconds: Some(10.0) };
    let mut board = Board::new("run".into(), goal, None);
    let screen = |board: &Board| {
        let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        terminal.backend().to_string()
    };
    board.toggle_help();
    assert!(screen(&board).contains("requests sent and not finished"));
    board.toggle_help();
    assert!(!screen(&board).contains("requests sent and not finished"));
}

/// Its last lines, with the key that closes it, were cut off.
#[test]
fn help_is_whole_on_a_small_screen() {
    let mut board = Board::new("run".into(), Goal::default(), None);
    board.push(BoardValues::default());
    board.toggle_help();
    let mut terminal = Terminal::new(TestBackend::new(60, 15)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("close this help"), "{screen}");
}

/// A server that accepts requests and sends nothing looked like a slow one.
#[test]
fn a_silent_server_is_named_instead_of_the_time_left() {
    let goal = Goal { requests: Some(8), seconds: None };
    let mut board = Board::new("run".into(), goal, None);
    let counts = LiveCounts { sent: 8, succeeded: 2, ..LiveCounts::default() };
    let silent = Some(Nanos::from_secs(12));
    let elapsed = Nanos::from_secs(20);
    board.push(BoardValues { elapsed, counts, silent, ..BoardValues::default() });
    let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("2 of 8 requests, 20 s elapsed, no content for 12 s"), "{screen}");
}

/// A run that the user had ended went on counting the time left.
#[test]
fn a_run_that_is_stopped_says_what_it_waits_for() {
    let goal = Goal { requests: None, seconds: Some(60.0) };
    let mut board = Board::new("run".into(), goal, None);
    let counts = LiveCounts { sent: 8, succeeded: 2, ..LiveCounts::default() };
    let elapsed = Nanos::from_secs(20);
    board.push(BoardValues { elapsed, counts, is_stopping: true, ..BoardValues::default() });
    let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
    terminal.draw(|frame| board.render(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("2 requests, 20 s elapsed, stopping: 6 in flight"), "{screen}");
}

#[test]
fn the_time_left_is_that_of_the_pace_so_far() {
    let check = |requests, seconds, ended, elapsed, expected: Option<f64>| {
        let mut board = Board::new("run".into(), Goal { requests, seconds }, None);
        let counts = LiveCounts { sent: ended, succeeded: ended, ..LiveCounts::default() };
        let elapsed = Nanos::from_secs(elapsed);
        board.push(BoardValues { elapsed, counts, ..BoardValues::default() });
        assert_eq!(board.left().map(f64::round), expected);
    };
    check(Some(100), None, 25, 10, Some(30.0));
    check(None, Some(60.0), 25, 10, Some(50.0));
    check(Some(100), None, 0, 10, None);
    check(None, None, 25, 10, None);
}
