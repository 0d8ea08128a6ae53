//! The imports as a graph: cycles, levels, and the edges that lead upward.

use std::collections::BTreeSet;

/// Edges from each node to those it imports; a node is an index.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Graph {
    pub edges: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// Creates a graph of `nodes` nodes without edges.
    pub fn new(nodes: usize) -> Graph {
        Graph { edges: vec![BTreeSet::new(); nodes] }
    }

    /// Adds an edge: `from` imports `to`. A node that imports itself is ignored.
    pub fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.edges[from].insert(to);
        }
    }

    /// Returns the strongly connected components of more than one node, largest first.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut cycles: Vec<Vec<usize>> =
            self.components().into_iter().filter(|component| component.len() > 1).collect();
        cycles.sort_by_key(|cycle| (std::cmp::Reverse(cycle.len()), cycle[0]));
        cycles
    }

    /// Returns all strongly connected components, each in ascending order (Tarjan 1972, without
    /// recursion).
    fn components(&self) -> Vec<Vec<usize>> {
        let nodes = self.edges.len();
        let mut state = Tarjan { number: vec![None; nodes], low: vec![0; nodes], ..Tarjan::default() };
        (0..nodes).for_each(|root| state.explore(self, root));
        state.components
    }

    /// Returns the edges to remove so that the rest has no cycle; few, though not always the
    /// minimum (the greedy order of Eades, Lin and Smyth 1993, within each cycle).
    pub fn upward(&self) -> BTreeSet<(usize, usize)> {
        let mut upward = BTreeSet::new();
        for cycle in self.cycles() {
            let order = self.greedy_order(&cycle);
            let position = |node: usize| order.iter().position(|&other| other == node);
            for &from in &cycle {
                for &to in self.edges[from].iter().filter(|to| cycle.contains(to)) {
                    if position(from) > position(to) {
                        upward.insert((from, to));
                    }
                }
            }
        }
        upward
    }

    /// Returns the nodes of a cycle, importers first, so that few edges point back.
    fn greedy_order(&self, cycle: &[usize]) -> Vec<usize> {
        let mut remaining: BTreeSet<usize> = cycle.iter().copied().collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        while !remaining.is_empty() {
            let imports = |node: usize| self.edges[node].iter().filter(|to| remaining.contains(to)).count();
            let importers =
                |node: usize| remaining.iter().filter(|&&from| self.edges[from].contains(&node)).count();
            let chosen = if let Some(&sink) = remaining.iter().find(|&&node| imports(node) == 0) {
                last.push(sink);
                sink
            } else {
                let surplus = |node: usize| imports(node) as isize - importers(node) as isize;
                let source = remaining.iter().copied().find(|&node| importers(node) == 0);
                let most =
                    remaining.iter().copied().max_by_key(|&node| (surplus(node), std::cmp::Reverse(node)));
                let Some(node) = source.or(most) else { break };
                first.push(node);
                node
            };
            remaining.remove(&chosen);
        }
        first.extend(last.into_iter().rev());
        first
    }

    /// Returns the level of each node, from 0: one above the highest that it imports, ignoring
    /// upward edges.
    pub fn levels(&self) -> Vec<usize> {
        let upward = self.upward();
        let mut levels = vec![0; self.edges.len()];
        // Each round raises the nodes that are still too low; a path is at most as long as there
        // are nodes.
        for _ in 0..self.edges.len() {
            for from in 0..self.edges.len() {
                let below = self.edges[from].iter().filter(|&&to| !upward.contains(&(from, to)));
                levels[from] = below.map(|&to| levels[to] + 1).max().unwrap_or(0);
            }
        }
        levels
    }

    /// Returns the graph without the edges that a longer path implies. The graph must have no
    /// cycle.
    pub fn reduced(&self) -> Graph {
        let mut reduced = self.clone();
        for (from, edges) in self.edges.iter().enumerate() {
            for &to in edges {
                if edges.iter().any(|&between| between != to && self.reaches(between, to)) {
                    reduced.edges[from].remove(&to);
                }
            }
        }
        reduced
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(node) = waiting.pop() {
            if node == to {
                return true;
            }
            if seen.insert(node) {
                waiting.extend(&self.edges[node]);
            }
        }
        false
    }
}

/// The state of Tarjan's algorithm.
#[derive(Default)]
struct Tarjan {
    number: Vec<Option<usize>>,
    /// The lowest number that is reachable and still on the stack.
    low: Vec<usize>,
    stack: Vec<usize>,
    count: usize,
    components: Vec<Vec<usize>>,
}

impl Tarjan {
    fn explore(&mut self, graph: &Graph, root: usize) {
        if self.number[root].is_some() {
            return;
        }
        let mut path = vec![(root, self.enter(graph, root))];
        while let Some((node, waiting)) = path.last_mut() {
            let node = *node;
            match waiting.pop() {
                Some(next) if self.number[next].is_none() => {
                    let edges = self.enter(graph, next);
                    path.push((next, edges));
                }
                Some(next) if self.stack.contains(&next) => self.lower(node, self.number[next]),
                Some(_) => {}
                None => {
                    path.pop();
                    self.leave(node);
                    if let Some((parent, _)) = path.last() {
                        self.lower(*parent, Some(self.low[node]));
                    }
                }
            }
        }
    }

    /// Numbers a node; returns the targets of its edges.
    fn enter(&mut self, graph: &Graph, node: usize) -> Vec<usize> {
        self.number[node] = Some(self.count);
        self.low[node] = self.count;
        self.count += 1;
        self.stack.push(node);
        graph.edges[node].iter().rev().copied().collect()
    }

    fn lower(&mut self, node: usize, to: Option<usize>) {
        self.low[node] = to.map_or(self.low[node], |to| self.low[node].min(to));
    }

    /// Pops the node's component off the stack, if the node was the first one to reach it.
    fn leave(&mut self, node: usize) {
        if self.number[node] == Some(self.low[node])
            && let Some(start) = self.stack.iter().position(|&other| other == node)
        {
            let mut component = self.stack.split_off(start);
            component.sort_unstable();
            self.components.push(component);
        }
    }
}
