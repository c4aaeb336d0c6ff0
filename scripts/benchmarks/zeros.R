# Zero-inflated negative binomial counts by glmmTMB; called by large_predictors.py.
#
#   Rscript zeros.R data.csv
#
# Prints the maximum of the likelihood (Laplace's approximation), seconds, both effects of the
# mean, both of the share of zeros, the size and the standard deviation of groups.
suppressMessages(library(glmmTMB))
data <- read.csv(commandArgs(trailingOnly = TRUE)[1])
data$g <- factor(data$g)
seconds <- system.time(
  fit <- glmmTMB(y ~ x + (1 | g), ziformula = ~x, family = nbinom2, data = data)
)[["elapsed"]]
sd <- attr(VarCorr(fit)$cond$g, "stddev")
cat(sprintf("%.10g\n", c(
  logLik(fit), seconds, fixef(fit)$cond, fixef(fit)$zi, sigma(fit), sd
)), sep = "")
