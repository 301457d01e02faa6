// Package jobspec turns job files into jobs. It reads HCL2 and JSON, fills in
// variables, locals, functions and dynamic blocks, and leaves a tree in the
// words of the API, which [admit.DecodeJob] turns into a job: defaults and
// validation are that package's, and there is no second set of structs.
//
// The syntax is that of Nomad's public job specification. What only an agent
// knows, ${attr.kernel.name} or ${NOMAD_PORT_http}, stays in the text as it was
// written; an expression that would have to know it is refused at its place.
//
// All problems of a file come back at once, each with file, line and column and
// its path in the job. Servers parse files for callers they do not trust, so
// every cost is bounded before it is paid: text, nesting, blocks, the steps of
// expressions and the size of what they build. No file is read except through
// [Options.Files].
package jobspec
