//! Who imports whom, as a graph: circles, floors, and the arrows that run up.

use std::collections::BTreeSet;

/// Arrows from each node to those it imports; a node is an index.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Graph {
    pub arrows: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// A graph of `nodes` nodes without arrows.
    pub fn new(nodes: usize) -> Graph {
        Graph { arrows: vec![BTreeSet::new(); nodes] }
    }

    /// `from` imports `to`. A node that imports itself says nothing.
    pub fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.arrows[from].insert(to);
        }
    }

    /// The strongly connected components of more than one node, largest first.
    pub fn circles(&self) -> Vec<Vec<usize>> {
        let mut circles: Vec<Vec<usize>> =
            self.components().into_iter().filter(|component| component.len() > 1).collect();
        circles.sort_by_key(|circle| (std::cmp::Reverse(circle.len()), circle[0]));
        circles
    }

    /// All strongly connected components, each in ascending order (Tarjan 1972, without recursion).
    fn components(&self) -> Vec<Vec<usize>> {
        let nodes = self.arrows.len();
        let mut state = Tarjan { number: vec![None; nodes], low: vec![0; nodes], ..Tarjan::default() };
        (0..nodes).for_each(|root| state.explore(self, root));
        state.components
    }

    /// The arrows to leave out so that the rest has no circle; few, though not always the fewest
    /// (the greedy order of Eades, Lin and Smyth 1993, within each circle).
    pub fn upward(&self) -> BTreeSet<(usize, usize)> {
        let mut upward = BTreeSet::new();
        for circle in self.circles() {
            let order = self.greedy_order(&circle);
            let position = |node: usize| order.iter().position(|&other| other == node);
            for &from in &circle {
                for &to in self.arrows[from].iter().filter(|to| circle.contains(to)) {
                    if position(from) > position(to) {
                        upward.insert((from, to));
                    }
                }
            }
        }
        upward
    }

    /// The nodes of a circle, importers first, so that few arrows point back.
    fn greedy_order(&self, circle: &[usize]) -> Vec<usize> {
        let mut left: BTreeSet<usize> = circle.iter().copied().collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let imports = |node: usize| self.arrows[node].iter().filter(|to| left.contains(to)).count();
            let importers =
                |node: usize| left.iter().filter(|&&from| self.arrows[from].contains(&node)).count();
            let chosen = if let Some(&sink) = left.iter().find(|&&node| imports(node) == 0) {
                last.push(sink);
                sink
            } else {
                let surplus = |node: usize| imports(node) as isize - importers(node) as isize;
                let source = left.iter().copied().find(|&node| importers(node) == 0);
                let most = left.iter().copied().max_by_key(|&node| (surplus(node), std::cmp::Reverse(node)));
                let Some(node) = source.or(most) else { break };
                first.push(node);
                node
            };
            left.remove(&chosen);
        }
        first.extend(last.into_iter().rev());
        first
    }

    /// The floor of each node, from 0: one above the highest that it imports, upward arrows aside.
    pub fn floors(&self) -> Vec<usize> {
        let upward = self.upward();
        let mut floors = vec![0; self.arrows.len()];
        // Each round raises what still stands too low; a path is at most as long as there are nodes.
        for _ in 0..self.arrows.len() {
            for from in 0..self.arrows.len() {
                let below = self.arrows[from].iter().filter(|&&to| !upward.contains(&(from, to)));
                floors[from] = below.map(|&to| floors[to] + 1).max().unwrap_or(0);
            }
        }
        floors
    }

    /// Without the arrows that a longer way implies. The graph must have no circle.
    pub fn reduced(&self) -> Graph {
        let mut reduced = self.clone();
        for (from, arrows) in self.arrows.iter().enumerate() {
            for &to in arrows {
                if arrows.iter().any(|&between| between != to && self.reaches(between, to)) {
                    reduced.arrows[from].remove(&to);
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
                waiting.extend(&self.arrows[node]);
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
                    let arrows = self.enter(graph, next);
                    path.push((next, arrows));
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

    /// Numbers a node; returns where its arrows lead.
    fn enter(&mut self, graph: &Graph, node: usize) -> Vec<usize> {
        self.number[node] = Some(self.count);
        self.low[node] = self.count;
        self.count += 1;
        self.stack.push(node);
        graph.arrows[node].iter().rev().copied().collect()
    }

    fn lower(&mut self, node: usize, to: Option<usize>) {
        self.low[node] = to.map_or(self.low[node], |to| self.low[node].min(to));
    }

    /// Takes the node's component off the stack, if the node was first to reach it.
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
