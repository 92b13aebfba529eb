//! Breakpoints, pods, paths and time series.

use vink_protocol::Action;
use vink_spec::{Breakpoint, NamedChange, PathSpec, PodSpec, Series};

use super::{Commands, WorkerCmd};
use crate::engine::lab::{Lab, State};
use crate::engine::series::series_file;
use crate::http_error::HttpError;

impl Commands for NamedChange<Breakpoint> {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            NamedChange::Remove { name: breakpoint } => {
                let breakpoint = breakpoint.clone();
                WorkerCmd::to_each(state.alive(), &Action::RemoveBreakpoint { breakpoint })
            }
            NamedChange::Add {
                name: breakpoint,
                spec,
            } => {
                let command = |worker| WorkerCmd {
                    undo: Some(Action::RemoveBreakpoint {
                        breakpoint: breakpoint.clone(),
                    }),
                    ..WorkerCmd::new(worker, state.breakpoint(breakpoint, spec))
                };
                state.alive().into_iter().map(command).collect()
            }
        })
    }
}

impl Commands for NamedChange<PodSpec> {
    fn commands(&self, lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            NamedChange::Remove { name: pod } => {
                let pod = pod.clone();
                let action = Action::RevokePod { pod, forget: true };
                WorkerCmd::to_each(state.pod_workers(), &action)
            }
            NamedChange::Add { name: pod, spec } => {
                let action = state.load_pod(lab, pod, spec)?;
                WorkerCmd::to_each(state.pod_workers(), &action)
            }
        })
    }
}

impl Commands for NamedChange<PathSpec> {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            NamedChange::Remove { name: path } => {
                let path = path.clone();
                WorkerCmd::to_each(state.pod_workers(), &Action::RemovePath { path })
            }
            NamedChange::Add { name: path, spec } => {
                let here = state.worker_of_path(spec);
                let command = |worker| match here == Some(worker) {
                    true => WorkerCmd::new(worker, state.add_path(path, spec)),
                    // It may have been there before.
                    false => {
                        let path = path.clone();
                        WorkerCmd::new(worker, Action::RemovePath { path })
                    }
                };
                state.pod_workers().into_iter().map(command).collect()
            }
        })
    }
}

impl Commands for NamedChange<Series> {
    fn commands(&self, lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            NamedChange::Remove { name: series } => {
                let series = series.clone();
                WorkerCmd::to_each(state.alive(), &Action::RemoveSeries { series })
            }
            NamedChange::Add { name: series, spec } => {
                let action = Action::AddSeries {
                    series: series.clone(),
                    what: spec.clone(),
                    folder: lab.folder.display().to_string(),
                };
                vec![WorkerCmd {
                    descriptors: vec![series_file(&lab.folder, spec, series)?.into()],
                    undo: Some(Action::RemoveSeries {
                        series: series.clone(),
                    }),
                    ..WorkerCmd::new(state.worker_of_series(spec), action)
                }]
            }
        })
    }
}
