package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// engine is the least that a Raft log asks of a storage engine: durable
// appends at the end, reads by index, deletion at both ends. Indexes start at
// one. Append returns when the entries are on disk.
type engine interface {
	Append(first uint64, entries [][]byte) error
	Get(index uint64) ([]byte, error)
	Bounds() (first, last uint64, err error)
	DeletePrefix(to uint64) error   // up to and with to
	DeleteSuffix(from uint64) error // from from on
	Close() error
}

// candidates are the engines compared, in the order of the tables.
var candidates = []struct {
	name string
	open func(dir string) (engine, error)
}{
	{"floor", openFloor},
	{"pebble", openPebble},
	{"bbolt", openBolt},
	{"etcdwal", openEtcd},
	{"sqlite", openSQLite},
	{"logstore", openStore},
}

// openNamed opens the log in dir with the engine of that name.
func openNamed(name, dir string) (engine, error) {
	for _, c := range candidates {
		if c.name == name {
			return c.open(dir)
		}
	}
	return nil, fmt.Errorf("no engine %q", name)
}

// key returns the key of entry i. Keys sort by index.
func key(i uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'l'}, i) }

// sizeOn returns the bytes that the files below dir take on disk.
func sizeOn(dir string) (total int64) {
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			total += allocated(p)
		}
		return nil
	})
	return total
}

// newest returns the file below dir that holds the end of the log: the one
// written last among those whose name matches the engine's pattern.
func newest(dir, name string) (string, error) {
	pattern := map[string]string{
		"pebble": "*.log", "bbolt": "*.db", "etcdwal": "*.wal", "sqlite": "*-wal", "logstore": "db/*.log", "floor": "*.dat",
	}[name]
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no %s in %s", pattern, dir)
	}
	sort.Strings(files) // each of them numbers its files, with leading zeros
	return files[len(files)-1], nil
}
