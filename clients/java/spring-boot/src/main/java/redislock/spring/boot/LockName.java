package redislock.spring.boot;

/** A bean that names locks in meters and spans, with few names for many keys: "invoice" for "invoice:42". By default, none. */
@FunctionalInterface
public interface LockName {
    /** The name for a key. With several locks, it is called for the first one. */
    String of(String key);
}
