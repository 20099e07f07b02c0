/**
 * The Truechimer clock: the time with the bound of its error, at about the cost of reading the processor's
 * counter. {@link org.truechimer.Clock} is where to begin.
 */
package org.truechimer;
