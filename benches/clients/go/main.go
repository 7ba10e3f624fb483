// Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
//
//	contest contend ADDRESS WHO SECONDS MS
//	                                      says "ready", waits for a line, has 8 clients contend for so long and keep each
//	                                      grant for MS, and prints a line for each: when it came, when it was released, and
//	                                      which client's it was
//	contest readers ADDRESS WHO SECONDS   the same with 7 clients that read and one, the last, that writes; each keeps its
//	                                      grant for 1 ms, then does something else for 1 ms, and the line tells when the
//	                                      grant came, whose it was, and how long it was waited for
//	contest own-8 ADDRESS WHO SECONDS     has 8 tasks of one program, which share a client, take a lock of their own each, and
//	                                      give it back at once; the lines are the same
//	contest hold ADDRESS WHO KEY          says "ready", then takes and gives back one lock as the lines "acquire" and
//	                                      "release" say, and prints when it had it, or began to give it back
//
// Times are in ns of the one clock that all processes read.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	clients = 8
	// How long a reader or a writer keeps its grant, and then does something else: else a lock would never be free of readers.
	kept, rested = time.Millisecond, time.Millisecond
)

func main() {
	if len(os.Args) < 5 || kinds[os.Args[3]] == nil {
		log.Fatal("usage: contest contend|readers|own-N|hold ADDRESS WHO SECONDS|KEY [MS]")
	}
	mode, address, who, last := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	open := kinds[who]
	lines := bufio.NewScanner(os.Stdin)
	if mode == "hold" {
		hold(open(address, last, sole), lines)
		return
	}
	seconds, err := strconv.ParseFloat(last, 64)
	check(err)
	length := time.Duration(seconds * float64(time.Second))
	if count, ok := strings.CutPrefix(mode, "own-"); ok {
		tasks, err := strconv.Atoi(count)
		check(err)
		share := sharing[who](address)
		var opened []lock
		for task := range tasks {
			alone := share(fmt.Sprint("own-", task))
			alone.rest = func() {}
			opened = append(opened, alone)
		}
		contend(opened, lines, length, 0, 0, true)
		return
	}
	var opened []lock
	for client := range clients {
		wanted := sole
		if mode == "readers" && client < clients-1 {
			wanted = reader
		}
		opened = append(opened, open(address, "contested", wanted))
	}
	if mode == "readers" {
		contend(opened, lines, length, kept, rested, true)
	} else {
		ms, err := strconv.Atoi(os.Args[5])
		check(err)
		contend(opened, lines, length, time.Duration(ms)*time.Millisecond, 0, false)
	}
}

type grant struct{ time, waited, released int64 }

// contend has clients that keep the lock for so long each time, and then do something else.
func contend(opened []lock, lines *bufio.Scanner, length, keep, rest time.Duration, waits bool) {
	fmt.Println("ready")
	lines.Scan()
	end := time.Now().Add(length)
	grants := make([][]grant, len(opened))
	var running sync.WaitGroup
	for client, lock := range opened {
		running.Go(func() {
			for time.Now().Before(end) {
				asked := now()
				lock.acquire()
				granted := now()
				time.Sleep(keep)
				grants[client] = append(grants[client], grant{granted, granted - asked, now()})
				lock.release()
				time.Sleep(rest)
				lock.rest()
			}
		})
	}
	running.Wait()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for client, all := range grants {
		for _, grant := range all {
			if waits {
				fmt.Fprintln(out, grant.time, client, grant.waited)
			} else {
				fmt.Fprintln(out, grant.time, grant.released, client)
			}
		}
	}
}

func hold(lock lock, lines *bufio.Scanner) {
	fmt.Println("ready")
	for lines.Scan() {
		if lines.Text() == "acquire" {
			lock.acquire()
			fmt.Println(now())
		} else {
			fmt.Println(now())
			lock.release()
		}
	}
}

func now() int64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
