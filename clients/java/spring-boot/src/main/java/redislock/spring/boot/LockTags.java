package redislock.spring.boot;

import io.micrometer.common.KeyValues;
import java.util.List;
import java.util.Locale;
import redislock.LockObserver.Mode;

/** The attributes of a lock in meters and spans. */
record LockTags(LockName name) {
    KeyValues of(List<String> keys, Mode mode) {
        var tags = KeyValues.of("redislock.mode", word(mode));
        return name == null ? tags : tags.and("redislock.name", name.of(keys.get(0)));
    }

    static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }
}
