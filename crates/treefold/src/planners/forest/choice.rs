//! The choice among the forms of a plan: streams or messages in order, of these trees or those.

use super::{Form, Grown, Sending, Timed};
use crate::plan::alpha_beta::Profile;
use crate::planners::ordering;
use crate::units::Seconds;

/// The part of the time that putting both halves in order together must save, as it takes more messages at a time.
const WORTH_TOGETHER: f64 = 0.02;
/// So many ordered plans of two halves are timed as a whole.
const MOST_WHOLE: usize = 4;
/// The part of the time that twice as many messages in order must save, and the most that all of them may.
const WORTH_DOUBLING: f64 = 2e-3;
const LEEWAY: f64 = 0.01;

/// Returns the trees of the fastest forms with all messages in one order, as they run, if that is faster: the sums that
/// are complete are broadcast while others are still reduced.
pub(super) fn in_one_order(timed: &[(Form, Seconds)], least: Seconds) -> Option<Timed> {
    let mut order: Vec<&(Form, Seconds)> = timed.iter().filter(|(form, _)| form.options.pipeline).collect();
    order.sort_by_key(|(_, seconds)| *seconds);
    let (mut best, mut most) = (None, least.get() * (1.0 - WORTH_TOGETHER));
    let mut tried: Vec<*const Grown> = Vec::new();
    for (form, _) in order {
        if tried.len() < MOST_WHOLE && !tried.contains(&std::ptr::from_ref(form.grown)) {
            tried.push(form.grown);
            let streamed = Form { sending: Sending::Streamed, ..*form }.draft();
            if let Some((draft, seconds)) = ordering::ordered(&streamed, form.options.size, most) {
                (best, most) = (Some((draft, Seconds::known(seconds))), seconds);
            }
        }
    }
    best
}

/// Returns the streams and the best ordered form, where twice as many messages have to save some time; what has the
/// fewest messages stands first.
pub(super) fn with_few_messages(mut timed: Vec<(Form, Seconds)>) -> Vec<(Form, Seconds)> {
    timed.sort_by_key(|(form, _)| form.messages());
    type Forms<'a> = Vec<(Form<'a>, Seconds)>;
    let (ordered, mut kept): (Forms, Forms) = timed.into_iter().partition(|(form, _)| form.is_ordered());
    let cost = |(form, seconds): &(Form, Seconds)| {
        seconds.get() * (1.0 + WORTH_DOUBLING * f64::from(form.messages().max(1).ilog2()))
    };
    kept.extend(ordered.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))));
    kept.sort_by_key(|(form, _)| form.messages());
    kept
}

/// Returns the forms that may be the fastest with their times.
pub(super) fn timed<'a>(forms: impl Iterator<Item = Form<'a>>) -> Vec<(Form<'a>, Seconds)> {
    // Streams come first: they are predicted soon, and tell what is slow.
    let (streams, ordered): (Vec<Form>, Vec<Form>) = forms.partition(|form| !form.is_ordered());
    let (mut timed, mut most) = (Vec::new(), f64::INFINITY);
    for form in streams.into_iter().chain(ordered) {
        if let Some(time) = form.seconds(most) {
            most = most.min(time.get() * (1.0 + LEEWAY));
            timed.push((form, time));
        }
    }
    timed
}

/// Times the fastest ordered forms of two halves as a whole. A block is sent on as soon as it is complete, before
/// others are, so the whole may take less time than both halves.
pub(super) fn time_as_wholes(timed: &mut [(Form, Seconds)]) {
    timed.sort_by_key(|(_, seconds)| *seconds);
    for (form, seconds) in timed.iter_mut().filter(|(form, _)| form.is_ordered()).take(MOST_WHOLE) {
        *seconds = Profile::of(&form.draft()).seconds(form.options.size);
    }
}
