/* Raw commands through hiredis, each on a context of its own, in RESP2 (and RESP3 from hiredis 1.0 on); and the functions
 * of the documentation. hiredis has no pool: a context is a connection. */
#define main program
#include "docs/lock.c"
#undef main

#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static redisContext *connect_in(int protocol) {
    redisContext *redis = redisConnect("127.0.0.1", atoi(getenv("REDIS_PORT")));
    assert(redis && !redis->err);
    redisSetTimeout(redis, (struct timeval){.tv_sec = 60});
    if (protocol == 3) freeReplyObject(redisCommand(redis, "HELLO 3"));
    return redis;
}

/* A reply that is an integer. */
static long long number(redisReply *reply) {
    assert(reply && reply->type == REDIS_REPLY_INTEGER);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

static int is_nil(redisReply *reply) {
    int nil = reply && reply->type == REDIS_REPLY_NIL;
    freeReplyObject(reply);
    return nil;
}

/* The fence of a grant with that many holds. */
static long long granted(redisReply *reply, const char *owner, long long holds) {
    assert(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 4);
    assert(!strcmp(reply->element[0]->str, owner) && reply->element[2]->integer == holds);
    assert(reply->element[3]->integer > 0);
    long long fence = reply->element[1]->integer;
    freeReplyObject(reply);
    return fence;
}

static int refused(redisReply *reply, const char *code) {
    int result = reply && reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, code, strlen(code));
    freeReplyObject(reply);
    return result;
}

/* LOCK.INFO is pairs in a row in RESP2, a map in RESP3; hiredis has the elements of both in a row. */
static long long waiters(redisContext *redis, const char *key) {
    redisReply *reply = redisCommand(redis, "LOCK.INFO %s", key);
    long long value = -1;
    assert(reply && reply->elements);
    for (size_t at = 0; at + 1 < reply->elements; at += 2)
        if (!strcmp(reply->element[at]->str, "waiters")) value = reply->element[at + 1]->integer;
    freeReplyObject(reply);
    return value;
}

struct wait {
    redisContext *redis;
    const char *key;
};

static void *wait_as_bob(void *given) {
    struct wait *wait = given;
    return redisCommand(wait->redis, "LOCK.ACQUIRE %s OWNER bob PX 30000 BLOCK 0", wait->key);
}

static void from_grant_to_end(int protocol) {
    redisContext *one = connect_in(protocol), *other = connect_in(protocol);
    char key[33];
    make_owner(key); /* a lock that no other test has */
    long long fence = granted(redisCommand(one, "LOCK.ACQUIRE %s OWNER alice PX 30000", key), "alice", 1);
    assert(granted(redisCommand(one, "LOCK.ACQUIRE %s OWNER alice PX 30000", key), "alice", 2) == fence);
    /* The same owner on another connection: the same grant, without another hold. */
    assert(granted(redisCommand(other, "LOCK.ACQUIRE %s OWNER alice PX 30000 ONCE", key), "alice", 2) == fence);
    assert(number(redisCommand(one, "LOCK.EXTEND %s alice EX 60 FENCE %lld", key, fence)) == 60000);
    assert(is_nil(redisCommand(one, "LOCK.ACQUIRE %s OWNER bob", key)));

    struct wait wait = {other, key};
    pthread_t waiting;
    assert(!pthread_create(&waiting, NULL, wait_as_bob, &wait));
    time_t end = time(NULL) + 30;
    while (waiters(one, key) != 1) assert(time(NULL) < end);
    assert(number(redisCommand(one, "LOCK.RELEASE %s alice FENCE %lld", key, fence)) == 1);
    assert(number(redisCommand(one, "LOCK.RELEASE %s alice FENCE %lld", key, fence)) == 0);
    void *next;
    assert(!pthread_join(waiting, &next));
    assert(granted(next, "bob", 1) > fence);
    assert(refused(redisCommand(one, "LOCK.EXTEND %s alice", key), "NOTHELD "));
    assert(number(redisCommand(one, "LOCK.RELEASE %s bob ALL", key)) == 0);
    assert(is_nil(redisCommand(one, "LOCK.INFO %s", key)));
    redisFree(one);
    redisFree(other);
    printf("ok: a lock from its grant to its end in RESP%d\n", protocol);
}

static void functions_of_the_documentation(void) {
    redisContext *redis = connect_in(2);
    char key[33], owner[33], other[33];
    make_owner(key), make_owner(owner), make_owner(other);
    long long fence = lock_acquire(redis, key, owner, EXCLUSIVE, 60000, 0);
    assert(fence > 0);
    assert(lock_acquire(redis, key, other, EXCLUSIVE, 60000, 20) == 0);
    assert(lock_release(redis, key, owner, fence) == 0);
    assert(lock_release(redis, key, owner, fence) == -1);
    long long next = lock_acquire(redis, key, other, EXCLUSIVE, 60000, 0);
    assert(next > fence);
    assert(number(redisCommand(redis, "LOCK.BREAK %s", key)) == 1);
    assert(lock_release(redis, key, other, next) == -1);
    freeReplyObject(redisCommand(redis, "SET %s string", key));
    assert(lock_acquire(redis, key, owner, EXCLUSIVE, 60000, 0) == -1);
    redisFree(redis);
    printf("ok: the functions of the documentation\n");
}

/* What many threads share: locks and the stock behind each. Each thread has a context of its own. */
enum { ROUNDS = 20, PIECES = 40 };
static struct article {
    char key[33], lock[40];
    int inside, sold, entered;
    long long fence;
} articles[5];

static struct article *new_article(struct article *article) {
    memset(article, 0, sizeof *article);
    make_owner(article->key);
    snprintf(article->lock, sizeof article->lock, "lock:%s", article->key);
    return article;
}

static long long enter(redisContext *redis, struct article *article, char *owner) {
    make_owner(owner);
    long long fence = lock_acquire(redis, article->lock, owner, EXCLUSIVE, 60000, 50000);
    assert(fence > article->fence); /* fences rise */
    article->fence = fence;
    assert(!article->inside++); /* nobody else is inside */
    return fence;
}

static void leave(redisContext *redis, struct article *article, char *owner, long long fence) {
    article->inside--;
    assert(lock_release(redis, article->lock, owner, fence) == 0);
}

static void *take_turns(void *article) {
    redisContext *redis = connect_in(2);
    char owner[33];
    for (int round = 0; round < ROUNDS; round++) {
        long long fence = enter(redis, article, owner);
        ((struct article *)article)->entered++;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* the others' chance */
        leave(redis, article, owner, fence);
    }
    redisFree(redis);
    return NULL;
}

/* The stock is read and written in two steps. */
static void *buy(void *given) {
    struct article *article = given;
    redisContext *redis = connect_in(2);
    char owner[33];
    long long fence = enter(redis, article, owner);
    redisReply *reply = redisCommand(redis, "GET %s", article->key);
    assert(reply && reply->type == REDIS_REPLY_STRING);
    int left = atoi(reply->str);
    freeReplyObject(reply);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* the others' chance */
    if (left > 0) {
        freeReplyObject(redisCommand(redis, "SET %s %d", article->key, left - 1));
        article->sold++;
    }
    leave(redis, article, owner, fence);
    redisFree(redis);
    return NULL;
}

static void run_threads(int count, int locks, void *(*work)(void *)) {
    pthread_t threads[500];
    for (int at = 0; at < count; at++) assert(!pthread_create(&threads[at], NULL, work, &articles[at % locks]));
    for (int at = 0; at < count; at++) assert(!pthread_join(threads[at], NULL));
}

static void many_threads(void) {
    new_article(articles);
    run_threads(100, 1, take_turns);
    assert(articles->entered == 100 * ROUNDS);
    printf("ok: a hundred threads take turns at one lock\n");

    redisContext *redis = connect_in(2);
    for (int at = 0; at < 5; at++)
        freeReplyObject(redisCommand(redis, "SET %s %d", new_article(&articles[at])->key, PIECES));
    redisFree(redis);
    run_threads(500, 5, buy);
    for (int at = 0; at < 5; at++) assert(articles[at].sold == PIECES);
    printf("ok: five hundred buyers of five articles\n");
}

/* Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps. */
static struct {
    pthread_mutex_t mutex;
    char key[33], path[32];
    int readers, writers, most, written, lost;
} book = {.mutex = PTHREAD_MUTEX_INITIALIZER, .path = "/tmp/bookXXXXXX"};

/* Counts who comes and goes; a writer must be alone, a reader without writers. */
static void count(int *inside, int by, int is_writer) {
    pthread_mutex_lock(&book.mutex);
    assert(book.writers == (is_writer && by < 0) && (!is_writer || !book.readers));
    *inside += by;
    if (book.readers > book.most) book.most = book.readers;
    pthread_mutex_unlock(&book.mutex);
}

static void write_page(const char *format, int number) {
    FILE *file = fopen(book.path, "w");
    assert(file && fprintf(file, format, number, number) > 0 && !fclose(file));
}

static void *write_book(void *given) {
    (void)given;
    redisContext *redis = connect_in(2);
    char owner[33];
    for (int round = 0; round < 4; round++) {
        make_owner(owner);
        long long fence = lock_acquire(redis, book.key, owner, EXCLUSIVE, 60000, 50000);
        assert(fence > 0);
        count(&book.writers, 1, 1);
        write_page("%d ", ++book.written);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* the others' chance */
        write_page("%d %d", book.written);
        count(&book.writers, -1, 1);
        assert(lock_release(redis, book.key, owner, fence) == 0);
    }
    redisFree(redis);
    return NULL;
}

static void *read_book(void *given) {
    (void)given;
    redisContext *redis = connect_in(2);
    char owner[33];
    for (int round = 0; round < 4; round++) {
        make_owner(owner);
        long long fence = lock_acquire(redis, book.key, owner, READERS, 60000, 50000);
        assert(fence > 0);
        count(&book.readers, 1, 0);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        int one = -1, other = -2;
        FILE *file = fopen(book.path, "r");
        assert(file && fscanf(file, "%d %d", &one, &other) == 2 && one == other && !fclose(file));
        count(&book.readers, -1, 0);
        assert(lock_release(redis, book.key, owner, fence) == 0);
    }
    redisFree(redis);
    return NULL;
}

static void *use_permit(void *given) {
    (void)given;
    redisContext *redis = connect_in(2);
    char owner[33];
    make_owner(owner);
    long long fence = lock_acquire(redis, book.key, owner, 10, 60000, 50000);
    assert(fence > 0);
    count(&book.readers, 1, 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    count(&book.readers, -1, 0);
    if (__atomic_add_fetch(&book.written, 1, __ATOMIC_SEQ_CST) % 8 == 0) {
        /* As if the thread's process were killed: nothing is given back, and the session ends with the connection. */
        freeReplyObject(redisCommand(redis, "LOCK.ACQUIRE %s OWNER %s LIMIT 10 ONCE SESSION", book.key, owner));
        __atomic_add_fetch(&book.lost, 1, __ATOMIC_SEQ_CST);
    } else
        assert(lock_release(redis, book.key, owner, fence) == 0);
    redisFree(redis);
    return NULL;
}

static void readers_writers_and_permits(void) {
    pthread_t threads[200];
    int descriptor = mkstemp(book.path);
    assert(descriptor >= 0 && !close(descriptor));
    write_page("%d %d", 0);
    make_owner(book.key);
    for (int at = 0; at < 105; at++) assert(!pthread_create(&threads[at], NULL, at % 21 ? read_book : write_book, NULL));
    for (int at = 0; at < 105; at++) assert(!pthread_join(threads[at], NULL));
    assert(book.written == 20 && book.most > 2);
    unlink(book.path);
    printf("ok: a hundred threads read and five write\n");

    book.most = book.written = 0;
    make_owner(book.key);
    for (int at = 0; at < 200; at++) assert(!pthread_create(&threads[at], NULL, use_permit, NULL));
    for (int at = 0; at < 200; at++) assert(!pthread_join(threads[at], NULL));
    assert(book.written == 200 && book.lost == 25 && book.most == 10);
    redisContext *redis = connect_in(2);
    time_t end = time(NULL) + 10;
    while (!is_nil(redisCommand(redis, "LOCK.INFO %s", book.key))) assert(time(NULL) < end);
    redisFree(redis);
    printf("ok: two hundred threads share ten permits, and some are lost with their connections\n");
}

int main(void) {
    from_grant_to_end(2);
#if HIREDIS_MAJOR >= 1
    from_grant_to_end(3);
#endif
    functions_of_the_documentation();
    many_threads();
    readers_writers_and_permits();
}
