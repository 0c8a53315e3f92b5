//! Values of tables and traces.

/// A number of tokens, also as tables with gaps write it: `600.0`. The error says that it is none.
pub(crate) fn token_count(text: &str) -> Result<u32, String> {
    let whole = text.parse().ok().filter(|it: &f64| it.fract() == 0.0 && *it >= 0.0);
    whole
        .and_then(|whole| u32::try_from(tokometer_base::units::nearest_count(whole)).ok())
        .ok_or_else(|| format!("`{text}` is not a number of tokens"))
}
