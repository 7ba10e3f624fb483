/* The functions of the documentation. */
#define main program
#include "docs/lock.c"
#undef main

#undef NDEBUG
#include <assert.h>

/* Whether the reply is a number. */
static int is_number(redisReply *reply) {
    int result = reply && reply->type == REDIS_REPLY_INTEGER;
    freeReplyObject(reply);
    return result;
}

int main(void) {
    redisContext *redis = redisConnect("127.0.0.1", atoi(getenv("REDIS_PORT")));
    assert(redis && !redis->err);
    redisSetTimeout(redis, (struct timeval){.tv_sec = 60});
    char key[33], owner[33], other[33], third[33];
    make_owner(key), make_owner(owner), make_owner(other), make_owner(third);
    long long fence = lock_acquire(redis, key, owner, EXCLUSIVE, 60000, 0);
    assert(fence > 0);
    assert(lock_acquire(redis, key, other, EXCLUSIVE, 60000, 20) == 0);
    assert(lock_release(redis, key, owner, fence) == 0);
    assert(lock_release(redis, key, owner, fence) == -1);
    for (int limit = READERS; limit <= 2; limit += 2) { /* readers keep out a writer, two of two a third one */
        long long one = lock_acquire(redis, key, owner, limit, 60000, 0), two = lock_acquire(redis, key, other, limit, 60000, 0);
        assert(one > 0 && two > one);
        assert(lock_acquire(redis, key, third, limit == READERS ? EXCLUSIVE : limit, 60000, 20) == 0);
        assert(lock_release(redis, key, owner, one) == 0 && lock_release(redis, key, other, two) == 0);
    }
    long long next = lock_acquire(redis, key, other, EXCLUSIVE, 60000, 0);
    assert(next > fence);
    assert(is_number(redisCommand(redis, "LOCK.BREAK %s", key)));
    assert(lock_release(redis, key, other, next) == -1);
    freeReplyObject(redisCommand(redis, "SET %s string", key));
    assert(lock_acquire(redis, key, owner, EXCLUSIVE, 60000, 0) == -1);
    redisFree(redis);
    printf("ok: the functions of the documentation\n");
}
