// Package planning decides what a training run of nodes does before it begins: who holds what of its memory ([Memory]), which
// plan that leaves ([Plan]), what is done about neighbours that the plan leaves out of memory ([Complete]), which
// partitions a step has, and what that is expected to cost in accuracy ([Outlook]). Every decision comes with its reason,
// in sentences.
package planning
