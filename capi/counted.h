// Objects that are counted, and what a caller gave along with a callback. Private to capi/.
//
// Threads: counts from any.

#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace coppice::capi {

// What a Held counts. Begins with one holder.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void Retain() { count_.fetch_add(1, std::memory_order_relaxed); }
  // Whether that was the last holder.
  bool Drop() { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  std::atomic<int64_t> count_{1};
};

// One holder of a counted object, or none.
template <typename Object>
class Held {
 public:
  Held() = default;
  // Takes over the hold of who made `object`, or gives it another holder.
  static Held Adopt(Object* object) { return Held(object); }
  static Held Share(Object* object) {
    object->Retain();
    return Held(object);
  }
  Held(const Held& other) : object_(other.object_) {
    if (object_ != nullptr) object_->Retain();
  }
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Held() {
    if (object_ != nullptr && object_->Drop()) delete object_;
  }

  Object* get() const { return object_; }
  Object& operator*() const { return *object_; }
  Object* operator->() const { return object_; }
  // The object, whose hold is the caller's from then on.
  Object* Leak() { return std::exchange(object_, nullptr); }

 private:
  explicit Held(Object* object) : object_(object) {}

  Object* object_ = nullptr;
};

// A caller's `user` and what ends it.
class User {
 public:
  User(void* user, void (*release)(void*)) : user_(user), release_(release) {}
  User(User&& other) noexcept
      : user_(other.user_), release_(std::exchange(other.release_, nullptr)) {}
  User& operator=(User&&) = delete;
  ~User() {
    if (release_ != nullptr) release_(user_);
  }

  void* get() const { return user_; }
  // What ends it, where that is decided later.
  void ReleaseWith(void (*release)(void*)) { release_ = release; }

 private:
  void* user_;
  void (*release_)(void*);  // Null: nothing, or moved from.
};

}  // namespace coppice::capi
