//! Time series: each in the worker of its machines, and in a file of its own.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vink_api::{NewSeries, RowsQuery, Series, SeriesRows};
use vink_protocol::{Action, Answer};
use vink_spec::{check_lab, Change, NamedChange};

use super::lab::{Lab, State};
use super::rows::{open, rows};
use super::status::name_is_good;
use crate::http_error::HttpError;
use crate::runs::reading;

impl State {
    /// The worker that has a series' machines; the first one, if it is about none.
    pub(crate) fn worker_of_series(&self, spec: &vink_spec::Series) -> usize {
        let values = spec.values.values();
        let machines = values.filter_map(|value| value.source.place());
        let event = spec.at.as_deref().and_then(|at| at.split(':').next());
        let mut all = machines.map(|(machine, _)| machine).chain(event);
        let place = all.find_map(|machine| self.worker_of.get(machine).copied());
        place.unwrap_or_default()
    }
}

/// The file of a series, empty.
pub(crate) fn series_file(
    folder: &Path,
    spec: &vink_spec::Series,
    name: &str,
) -> Result<OwnedFd, HttpError> {
    let path = folder.join(spec.file(name));
    let about =
        |why: String| HttpError::invalid(format!("{}: {why}", path.display())).at("/spec/file");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        // A pipe without a reader is an error: opening it would block.
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .map_err(|error| about(error.to_string()))?;
    let kind = file.metadata().map_err(|error| about(error.to_string()))?;
    match kind.is_file() {
        true => Ok(file.into()),
        false => Err(about(
            "a series is written to a file, and this is none".to_owned(),
        )),
    }
}

impl Lab {
    /// All series, with what they have written.
    pub(crate) async fn all_series(self: &Arc<Lab>) -> Result<Vec<Series>, HttpError> {
        let workers = self.state().alive();
        let mut known = Vec::new();
        for worker in workers {
            match self.have(worker, Action::Series, Vec::new()).await? {
                Answer::Series(its) => known.extend(its),
                other => return Err(HttpError::invalid(format!("the worker answered {other:?}"))),
            }
        }
        let state = self.state();
        let all = state.spec.series.iter().map(|(name, spec)| {
            let status = known.iter().find(|status| status.series == *name);
            Series {
                name: name.clone(),
                path: self.folder.join(spec.file(name)).display().to_string(),
                spec: spec.clone(),
                rows: status.map_or(0, |status| status.rows),
                missed: status.map_or(0, |status| status.missed),
                error: match status {
                    Some(status) => status.error.clone(),
                    None => Some("its worker has died".to_owned()),
                },
            }
        });
        Ok(all.collect())
    }

    /// The file of a series of the lab.
    fn file_of_series(&self, name: &str) -> Result<PathBuf, HttpError> {
        let state = self.state();
        let all = &state.spec.series;
        let Some(spec) = all.get(name) else {
            let names = all.keys().map(String::as_str);
            return Err(HttpError::no("series", name, names, "in the lab"));
        };
        Ok(self.folder.join(spec.file(name)))
    }

    /// Rows of a series.
    pub(crate) async fn rows_of_series(
        &self,
        name: &str,
        query: RowsQuery,
    ) -> Result<SeriesRows, HttpError> {
        let path = self.file_of_series(name)?;
        reading(move || rows(&path, &query)).await
    }

    /// The file of a series, as far as it is written.
    pub(crate) async fn series_as_file(&self, name: &str) -> Result<File, HttpError> {
        let path = self.file_of_series(name)?;
        reading(move || open(&path)).await
    }

    /// Begins a series.
    pub(crate) async fn new_series(self: &Arc<Lab>, new: NewSeries) -> Result<Series, HttpError> {
        name_is_good("time series", &new.name)?;
        {
            let _one = self.changing.lock().await;
            let mut with = self.state().spec.clone();
            if with.series.contains_key(&new.name) {
                let taken = format!("series {} is in lab {} already", new.name, self.name);
                return Err(HttpError::conflict(taken));
            }
            with.series.clear();
            with.series.insert(new.name.clone(), new.spec.clone());
            if let Err(mistakes) = check_lab(&with, None) {
                let object = format!("series.{}", new.name);
                if let Some(fault) = HttpError::of_object(&mistakes, &object) {
                    return Err(fault);
                }
            }
            let step = Change::Series(NamedChange::Add {
                name: new.name.clone(),
                spec: new.spec,
            });
            self.reconcile(vec![step], true).await?;
        }
        let all = self.all_series().await?;
        let made = all.into_iter().find(|series| series.name == new.name);
        made.ok_or_else(|| HttpError::conflict(format!("series {} was removed", new.name)))
    }

    /// Ends a series. Its file stays.
    pub(crate) async fn remove_series(self: &Arc<Lab>, name: &str) -> Result<Series, HttpError> {
        let all = self.all_series().await?;
        let Some(was) = all.iter().find(|series| series.name == name).cloned() else {
            let names = all.iter().map(|series| series.name.as_str());
            return Err(HttpError::no("series", name, names, "in the lab"));
        };
        let _one = self.changing.lock().await;
        let series = name.to_owned();
        self.reconcile(
            vec![Change::Series(NamedChange::Remove { name: series })],
            true,
        )
        .await?;
        Ok(was)
    }
}
