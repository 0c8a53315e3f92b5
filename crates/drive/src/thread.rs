//! Threads of a run. A panic in one ends the run instead of blocking it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::platform::{Platform, Task, Wake};
use crate::shared::Shared;

pub(crate) struct Thread<T> {
    task: Box<dyn Task>,
    result: Arc<Mutex<Option<T>>>,
}

/// Starts a thread. A panic in it is stored in `shared`, where the owner finds it.
pub(crate) fn spawn<T: Send + 'static>(
    platform: &impl Platform,
    name: &'static str,
    shared: &Arc<Shared>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Thread<T>, Error> {
    let result = Arc::new(Mutex::new(None));
    let (stored, shared) = (Arc::clone(&result), Arc::clone(shared));
    let guarded = move || match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => *stored.lock().unwrap_or_else(PoisonError::into_inner) = Some(value),
        Err(payload) => {
            let message = message(payload.as_ref());
            shared.panicked(Error::Panicked { thread: name, message });
        }
    };
    let task = platform
        .spawn(name, Box::new(guarded))
        .map_err(|source| Error::System { what: "start a thread", source })?;
    Ok(Thread { task, result })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

impl<T> Thread<T> {
    pub(crate) fn waker(&self) -> Arc<dyn Wake> {
        self.task.waker()
    }

    /// Waits until it has ended. `None` when it panicked.
    pub(crate) fn join(self) -> Option<T> {
        self.task.join();
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
