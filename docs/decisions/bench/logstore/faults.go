package main
func faults() {}
func childCheck() {}
func childFull() {}
