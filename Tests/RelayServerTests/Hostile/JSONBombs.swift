// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// JSON that costs its reader more than its writer, or that two readers take for different things.
enum JSONBombs {
    /// - Parameters:
    ///   - count: how large each is, about.
    ///   - beginning: what stands behind the object's brace, such as the type.
    static func all(_ count: Int, beginning: String = #""type":"hello","#) -> [(name: String, bytes: [UInt8])] {
        func text(_ unit: (Int) -> String) -> String {
            var text = ""
            while text.utf8.count < count { text += unit(text.utf8.count) }
            return text
        }
        func repeated(_ unit: String, _ size: Int) -> String { String(repeating: unit, count: size / unit.utf8.count) }
        let bodies = [
            ("arrays that do not end", #""x":"# + repeated("[", count)),
            ("arrays that do", #""x":"# + repeated("[", count / 2) + repeated("]", count / 2) + "}"),
            ("objects that do not end", #""x":"# + repeated(#"{"x":"#, count)),
            ("one key many times", repeated(#""type":"hello","#, count) + #""type":"watch"}"#),
            ("many keys", text { "\"\($0)\":0," } + #""x":0}"#),
            ("a long number", #""version":"# + repeated("9", count) + "}"),
            ("a long fraction", #""version":0."# + repeated("3", count) + "}"),
            ("a large exponent", #""version":1e"# + repeated("9", count) + "}"),
            ("a number like a float's end", #""version":1.7976931348623157e308,"ref":-9223372036854775809}"#),
            ("many numbers", #""x":["# + repeated("0,", count) + "0]}"),
            ("many escapes", #""x":""# + repeated(#"\u0041"#, count) + "\"}"),
            ("an escaped key", #"""# + repeated(#"\u0041"#, count) + #"":0}"#),
            ("half surrogates", #""x":""# + repeated(#"\ud800"#, count) + "\"}"),
            ("a string that does not end", #""x":""# + repeated("a", count)),
            ("spaces", repeated(" ", count) + "}"),
        ]
        return bodies.map { ($0, Array(("{" + beginning + $1).utf8)) }
    }
}
