// Package jobspec parses job files. It reads HCL2 and JSON, evaluates
// variables, locals, functions and dynamic blocks, and produces a tree with the
// API's field names. [admit.DecodeJob] turns the tree into a job: it sets
// defaults and validates, so there is no second set of structs.
//
// The syntax is that of Nomad's public job specification. References that only
// an agent can resolve, such as ${attr.kernel.name} or ${NOMAD_PORT_http}, stay
// in the text as written; an expression that needs their value is refused.
//
// All problems of a file are returned at once, each with file, line, column and
// its path in the job. Servers parse files for callers that they do not trust,
// so every cost is limited before it is paid: text, nesting, blocks, the steps
// of expressions and the size of their results. Files are only read through
// [Options.Files].
package jobspec
