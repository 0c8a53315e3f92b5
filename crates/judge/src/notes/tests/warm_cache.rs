//! Prefix-cache hits where prompts promise to share nothing.

use super::{Pair, Scene, sound, spoil};
use crate::notes::NoteCode;

/// A random workload with a planned common prefix was called warm for hitting it.
#[test]
fn a_warm_cache_is_judged_where_prompts_promise_to_share_nothing() {
    let check = |dataset: &str, prefix: u64, expected: bool| {
        let mut scene = sound();
        spoil(&mut scene, NoteCode::WarmCache);
        dataset.clone_into(&mut scene.info.dataset);
        scene.info.plan = serde_json::json!({ "workload": { "prefix_len": prefix } });
        assert_eq!(!scene.notes().is_empty(), expected, "{dataset} {prefix}");
    };
    for dataset in ["random", "random-ids", "random-mm", "image", "burstgpt", "book"] {
        check(dataset, 0, true);
    }
    check("random", 64, false);
    check("random-mm", 64, false);
    check("sonnet", 0, false);
    check("prefix_repetition", 0, false);
    let mut blank = sound();
    spoil(&mut blank, NoteCode::WarmCache);
    blank.info.dataset = "image".to_owned();
    blank.info.plan = serde_json::json!({ "workload": { "image_content": "blank" } });
    assert_eq!(blank.notes(), [], "images that are all alike");
}

/// Every chat run against a server with a prefix cache was SUSPECT: all prompts begin with the chat
/// template, whose first block of 16 tokens is in the cache after the first request.
#[test]
fn a_chat_template_in_the_cache_is_no_warm_cache() {
    let chat = |cached: u64| {
        let mut scene = sound();
        scene.observed.prompt_lengths.right = 1_026_000;
        scene.observed.least_surplus = Some(26);
        scene.observed.cached = Pair { requests: 1_000, left: 1_026_000, right: cached };
        scene
    };
    let found = |scene: &Scene| scene.notes().into_iter().map(|note| note.found).next();
    assert_eq!(found(&chat(16_000)), None);
    let warm = "3.8 % of the prompt tokens were prefix-cache hits, 1.2 % beyond the chat template and the \
                first special token";
    assert_eq!(found(&chat(39_000)).as_deref(), Some(warm));
    // The same from the server's own counters.
    let scraped = |share: f64| {
        let mut scene = chat(0);
        scene.observed.cached = Pair::default();
        scene.server().prefix_hit_share = Some(share);
        found(&scene).is_some()
    };
    assert!(!scraped(0.016) && scraped(0.04));
    // A cache that compares token by token finds the first special token of every prompt.
    let mut short = sound();
    short.observed.prompt_lengths = Pair { requests: 1_000, left: 32_000, right: 32_000 };
    short.observed.cached = Pair { requests: 1_000, left: 32_000, right: 1_000 };
    assert_eq!(found(&short), None);
    short.observed.cached.right = 2_000;
    assert!(found(&short).is_some());
}

/// The note said 18.8 % where the line `server` said 25 %.
#[test]
fn a_warm_cache_has_the_share_of_hits_that_the_server_counts() {
    let mut scene = sound();
    scene.observed.prompt_lengths = Pair { requests: 100, left: 1_600, right: 1_600 };
    scene.observed.cached = Pair { requests: 100, left: 1_600, right: 400 };
    let found = |scene: &Scene| scene.notes().into_iter().map(|note| note.found).next();
    let said =
        "25.0 % of the prompt tokens were prefix-cache hits, 18.8 % beyond the first special token";
    assert_eq!(found(&scene).as_deref(), Some(said));
    scene.observed.cached = Pair::default();
    scene.server().prefix_hit_share = Some(0.25);
    assert_eq!(found(&scene).as_deref(), Some(said));
}

/// The planned length of a prompt with an image is that of its text: cached images passed for the template.
#[test]
fn cached_images_are_a_warm_cache() {
    let images = |cached: u64| {
        let mut scene = sound();
        scene.info.dataset = "image".to_owned();
        scene.observed.prompt_lengths = Pair { requests: 1_000, left: 16_000, right: 2_716_000 };
        scene.observed.least_surplus = Some(2_700);
        scene.observed.cached = Pair { requests: 1_000, left: 2_716_000, right: cached };
        scene.notes().into_iter().any(|note| note.code == NoteCode::WarmCache)
    };
    assert!(!images(16_000) && images(2_700_000));
}
