package peloton.spark;

/** Words of a command line for {@code sh}. */
final class Shell {
  private Shell() {}

  /** Returns a word that the shell takes as it is. */
  static String quoted(String word) {
    return word.matches("[A-Za-z0-9_@%+=:,./-]+") ? word : "'" + word.replace("'", "'\\''") + "'";
  }
}
