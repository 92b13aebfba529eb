//! A moment of an explored run, opened as a lab: breakpoints do to its packets what the schedule does.
//!
//! It is no repetition of the run: a control process makes the lab, and its random numbers are others. The same packets
//! have the same fates, at the same times.

use std::sync::Arc;

use vink_api::{
    Client, ExploredLab as Wanted, ExploredQuery, ExploredQuestion, LabApi, OpenExplored,
    OpenedExplored, PutLab, RunClock, RuntimeDir,
};
use vink_spec::Span;

use super::lab::Labs;
use super::opened::{seconds, Unfinished};
use crate::explored::ExploredLab;
use crate::http_error::HttpError;

impl Labs {
    /// Makes a lab that is as an explored run at a moment.
    pub(crate) async fn open_explored(
        self: &Arc<Labs>,
        explored: Arc<ExploredLab>,
        asked: OpenExplored,
    ) -> Result<OpenedExplored, HttpError> {
        let query = ExploredQuery {
            schedule: asked.schedule,
            side: asked.side,
        };
        let wanted: Wanted = explored.ask(&ExploredQuestion::Lab(query)).await?;
        let Wanted {
            lab,
            folder,
            env,
            begin,
        } = wanted;
        let name = asked
            .name
            .unwrap_or_else(|| format!("{}-at-{}", lab.name, seconds(asked.at)));
        let put = PutLab {
            spec: lab,
            folder,
            env: env.into_iter().collect(),
            new: true,
            paused: true,
            ..PutLab::default()
        };
        let mut unfinished = Unfinished::begin(self, &name)?;
        self.put(&name, put).await?;
        let run = RunClock {
            by: Some(Span(asked.at.saturating_sub(begin))),
            ..RunClock::default()
        };
        // By the socket: a client's request lets the clock go.
        let client = Client::of(&RuntimeDir::at(self.folder()));
        let clock = client.run_clock(&name, &run).await;
        let clock = clock.map_err(|error| {
            HttpError::conflict(format!(
                "running {name} until {}: {error}",
                seconds(asked.at)
            ))
        })?;
        unfinished.is_there();
        Ok(OpenedExplored {
            lab: name,
            nanoseconds: clock.nanoseconds + begin,
            begin,
        })
    }
}
