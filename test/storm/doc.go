// Package storm kills an agent again and again while tasks of all drivers run,
// begin and end, and restarts the engines beneath it. No task may be started
// again without cause, only an engine that was away may lose an exit code, and
// nothing may be left over.
package storm
