// Package failpoint lets a test make the program fail at a named point: exit,
// hang, return an error or wait, at the nth pass or at every one.
//
// Points exist only in builds with the tag "faults". In every other build
// [Hit] and [On] are empty and the compiler removes them together with the
// names of the points, so that nothing in the environment can make the program
// that people install lose data. Such a build refuses to start when
// BERTH_FAILPOINTS is set ([Check]): a test that set it expects faults.
//
//	go build -tags faults ./cmd/berth
//	BERTH_FAILPOINTS="agent/report-before=exit@3;local/put=error(disk full)*"
//
// A value that begins with @ names a file that holds such a list. It is read
// again and again, so that a test can set points while the process runs, and
// clear them by emptying the file.
//
//	BERTH_FAILPOINTS="@/tmp/points"
package failpoint

// Env is the environment variable that is read when the process starts.
const Env = "BERTH_FAILPOINTS"

// ExitCode is the exit status of the exit action.
const ExitCode = 86
