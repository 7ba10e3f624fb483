/* Preloaded into a server. The test sets a number that controls `fsync` there: 0: it works, 1: it fails, 2: it hangs until the number
 * changes. */

#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include "preload.h"

static int sync_to_disk(long call, int file) {
    while (number && *number == 2) usleep(1000);
    if (number && *number == 1) return errno = EIO, -1;
    return (int)syscall(call, file);
}

int fsync(int file) { return sync_to_disk(SYS_fsync, file); }
int fdatasync(int file) { return sync_to_disk(SYS_fdatasync, file); }
