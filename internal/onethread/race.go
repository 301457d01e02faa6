//go:build race

package onethread

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
