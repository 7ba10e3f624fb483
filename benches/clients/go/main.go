// Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
//
//	contest contend ADDRESS WHO SECONDS   says "ready", waits for a line, has 8 clients contend for so long, and prints a
//	                                      line for each grant: when it came, and which client's it was
//	contest readers ADDRESS WHO SECONDS   the same with 7 clients that read and one, the last, that writes; each keeps its
//	                                      grant for 1 ms, then does something else for 1 ms, and the line adds how
//	                                      long the grant was waited for
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
	if len(os.Args) != 5 || kinds[os.Args[3]] == nil {
		log.Fatal("usage: contest contend|readers|hold ADDRESS WHO SECONDS|KEY")
	}
	mode, address, open, last := os.Args[1], os.Args[2], kinds[os.Args[3]], os.Args[4]
	lines := bufio.NewScanner(os.Stdin)
	if mode == "hold" {
		hold(open(address, last, sole), lines)
		return
	}
	seconds, err := strconv.ParseFloat(last, 64)
	check(err)
	var opened []lock
	for client := range clients {
		wanted := sole
		if mode == "readers" && client < clients-1 {
			wanted = reader
		}
		opened = append(opened, open(address, "contested", wanted))
	}
	contend(opened, lines, time.Duration(seconds*float64(time.Second)), mode == "readers")
}

type grant struct{ time, waited int64 }

func contend(opened []lock, lines *bufio.Scanner, length time.Duration, keep bool) {
	fmt.Println("ready")
	lines.Scan()
	end := time.Now().Add(length)
	var grants [clients][]grant
	var running sync.WaitGroup
	for client, lock := range opened {
		running.Go(func() {
			for time.Now().Before(end) {
				asked := now()
				lock.acquire()
				granted := now()
				grants[client] = append(grants[client], grant{granted, granted - asked})
				if keep {
					time.Sleep(kept)
				}
				lock.release()
				if keep {
					time.Sleep(rested)
				}
				lock.rest()
			}
		})
	}
	running.Wait()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for client, all := range grants {
		for _, grant := range all {
			if keep {
				fmt.Fprintln(out, grant.time, client, grant.waited)
			} else {
				fmt.Fprintln(out, grant.time, client)
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
