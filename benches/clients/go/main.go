// Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
//
//	contest contend ADDRESS WHO SECONDS MS
//	                                      says "ready", waits for a line, has 8 clients contend for so long and keep each
//	                                      grant for MS, and prints a line for each: when it came, when it was released, and
//	                                      which client's it was
//	contest own ADDRESS WHO SECONDS MS    the same with 100 tasks of one program, which share a client, and take a lock of their
//	                                      own each
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

const clients, tasks = 8, 100

func main() {
	if len(os.Args) < 5 || kinds[os.Args[3]] == nil {
		log.Fatal("usage: contest contend|own|hold ADDRESS WHO SECONDS|KEY [MS]")
	}
	mode, address, who, last := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	open := kinds[who]
	lines := bufio.NewScanner(os.Stdin)
	if mode == "hold" {
		hold(open(address, last), lines)
		return
	}
	seconds, err := strconv.ParseFloat(last, 64)
	check(err)
	ms, err := strconv.Atoi(os.Args[5])
	check(err)
	var opened []lock
	if mode == "own" {
		share := sharing[who](address)
		for task := range tasks {
			alone := share(fmt.Sprint("own-", task))
			alone.rest = func() {}
			opened = append(opened, alone)
		}
	} else {
		for range clients {
			opened = append(opened, open(address, "contested"))
		}
	}
	contend(opened, lines, time.Duration(seconds*float64(time.Second)), time.Duration(ms)*time.Millisecond)
}

type grant struct{ time, released int64 }

// contend has clients contend for the lock; each keeps the lock for the duration keep, each time.
func contend(opened []lock, lines *bufio.Scanner, length, keep time.Duration) {
	fmt.Println("ready")
	lines.Scan()
	end := time.Now().Add(length)
	grants := make([][]grant, len(opened))
	var running sync.WaitGroup
	for client, lock := range opened {
		running.Go(func() {
			for time.Now().Before(end) {
				lock.acquire()
				granted := now()
				time.Sleep(keep)
				grants[client] = append(grants[client], grant{granted, now()})
				lock.release()
				lock.rest()
			}
		})
	}
	running.Wait()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for client, all := range grants {
		for _, grant := range all {
			fmt.Fprintln(out, grant.time, grant.released, client)
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
