// Package explain says why a model of nodes says what it says of one node: which features, and which edges, moved it there.
//
// # Method
//
// Integrated gradients (Sundararajan, Taly and Yan, "Axiomatic Attribution for Deep Networks", ICML 2017, section 3): what a model says is
// followed along a straight path from a baseline to the input, and what it changes by is shared out by the gradient on the way. The
// shares add up to the change (completeness), which is how the result is checked. There are two paths over the node's exact
// neighbourhood, all nodes within the model's hops and all edges between them:
//
//   - features: all features of all these nodes grow from 0, which is the mean of columns that ingest standardised, to what they are;
//   - edges: what comes along each edge, a neighbour's state, grows from 0 to what it is. An edge that several layers use has a share of
//     each. A self loop that a model adds is no edge: it is the node itself.
//
// What is followed is the probability of a class or label, or the number that the model says.
//
// # Concurrency
//
// Explain is for one goroutine.
package explain
