//! Tries all orders of actions in small worlds.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model};

/// Tries all orders of actions, until a state violates a property.
pub(crate) fn explore<M>(name: &str, model: M) -> impl Checker<M>
where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>,
    M: Send + Sync + 'static,
{
    let began = Instant::now();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    let took = began.elapsed();
    println!(
        "figure: {name}: {states} states, {steps} steps between them, up to {depth} in a row, {took:.1?}"
    );
    checker
}

/// Checks that all properties hold in all states. `faults` tells what is wrong with a state.
pub(crate) fn holds<M>(name: &str, model: M, faults: impl Fn(&M::State) -> String)
where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>,
    M: Send + Sync + 'static,
{
    let checker = explore(name, model);
    for (property, path) in checker.discoveries() {
        if matches!(checker.discovery_classification(property), DiscoveryClassification::Counterexample) {
            let faults = faults(path.last_state());
            let steps: Vec<String> = path.into_actions().iter().map(|step| format!("\n  {step:?}")).collect();
            panic!("{name}: broken: {property}: {faults}, after{}", steps.concat());
        }
    }
    checker.assert_properties();
}
